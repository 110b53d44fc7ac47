//! The clients in a run: their connections, timers, requests and answers.

mod cast;
mod hostile;
mod links;
mod members;
mod raw;
