//! Stories of the measures.
