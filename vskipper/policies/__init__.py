"""The built-in skip policies, one a file. None keeps state between passes; all stay on the device."""
