//! The text forms of Kafka's configs, as the server and muster-load read them: the lines of a
//! properties file, the login module in `sasl.jaas.config`, and certificates and keys as PEM.
//!
//! Such texts hold passwords and keys: no error repeats a part of them but a name.

#![forbid(unsafe_code)]

pub mod jaas;
pub mod pem;
pub mod properties;
