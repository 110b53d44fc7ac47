//! Parsers for the text forms of Kafka's configs, shared by the server and muster-load: the lines
//! of a properties file, the login module in `sasl.jaas.config`, and certificates and keys as PEM.
//!
//! These texts contain passwords and keys. Therefore an error quotes nothing of them except names.

#![forbid(unsafe_code)]

pub mod jaas;
pub mod pem;
pub mod properties;
