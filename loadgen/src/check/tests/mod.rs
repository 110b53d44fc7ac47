//! Stories and properties of the checks.
