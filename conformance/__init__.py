"""The suite as a product: clauses, runtimes under test, faults, waivers, certificate and report."""
