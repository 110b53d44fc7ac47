//! The clients in a run: their connections, timers, requests and answers.

mod hostile;
mod links;
mod members;
mod raw;
