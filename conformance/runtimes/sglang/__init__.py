"""SGLang's own ModelRunner in this process, driven pass by pass from a step's plan, with vSkipper's model classes."""
