"""Runtimes under test. A third party adds its own by implementing properties.runtime.Runtime."""
