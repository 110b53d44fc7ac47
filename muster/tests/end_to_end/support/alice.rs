//! A server with two listeners. Clients of INSIDE need no password and may do everything. OUTSIDE
//! requires the password of alice, who may do what ACLs allow.

use super::{Client, Server, free_ports};
use muster_codec::Response;
use muster_codec::messages::*;
use std::path::Path;

const CONFIGS: [&str; 5] = [
    "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
    "listener.name.outside.sasl.enabled.mechanisms=PLAIN",
    "listener.name.outside.plain.sasl.jaas.config=\
     org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
];

/// Starts the server with additional arguments. Also returns the port of OUTSIDE at the first
/// shard.
pub fn start(data: &Path, shards: u16, arguments: &[&str]) -> (Server, u16) {
    let (inside, outside) = (free_ports(shards), free_ports(shards));
    let listeners = format!("listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}");
    let all: Vec<&str> =
        std::iter::once(&*listeners).chain(CONFIGS).chain(arguments.iter().copied()).collect();
    (Server::with_arguments(data, inside, shards, &all), outside)
}

/// Logs in as alice. Returns the error code.
pub fn log_in(client: &mut Client, password: &str) -> i16 {
    client.call(1, SaslHandshakeRequest { mechanism: "PLAIN".into() }.into());
    let auth_bytes = format!("\0alice\0{password}").into_bytes().into();
    let answer = client.call(2, SaslAuthenticateRequest { auth_bytes }.into());
    let Response::SaslAuthenticate(answer) = answer else { panic!("{answer:?}") };
    answer.error_code
}
