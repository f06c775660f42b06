"""Model classes under the engine's own architecture names; SGLang's registry loads every module of this package."""
