//! Log lines at startup.

use super::options::Options;
use crate::Failure;
use crate::addresses::warn_if_unreachable;
use crate::cluster::ClusterImage;
use crate::config::{Config, SecurityProtocol, ServedListener};
use crate::placement::CONTROLLER;
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::{info, warn};

pub(super) fn log_start(options: &Options) {
    let data = options.data.display();
    let ports = ports(options);
    let file = options.config_file.as_deref().map(Path::display);
    let file =
        file.map_or_else(|| "no config file".to_owned(), |file| format!("configs from {file}"));
    let Options { version, shards, .. } = options;
    info!("muster {version}: data in {data}, {file}, shards: {shards}, on {ports}");
}

/// The listeners' addresses on the first shard, each with the port of the last shard.
fn ports(options: &Options) -> String {
    let of_listener = |listener: &ServedListener| {
        let last = listener.listen.of_shard(options.shards - 1).ok();
        match last.filter(|last| last.port > listener.listen.port) {
            Some(last) => format!("{} to {}", listener.listen, last.port),
            None => listener.listen.to_string(),
        }
    };
    options.served.listeners.iter().map(of_listener).collect::<Vec<_>>().join(", ")
}

/// Logs that the server is ready. For a developer it also logs first steps.
pub(super) fn log_ready(options: &Options, cluster: &str, after: Duration) {
    info!("ready after {} ms: cluster {cluster}", after.as_millis());
    if options.in_words_of_kafka {
        // Test frameworks wait for these words.
        info!("in Kafka's words: Transitioning from RECOVERY to RUNNING, Kafka Server started");
    }
    let listener = options.served.listeners.first().filter(|_| options.is_for_developer);
    let Some(listener) = listener else { return };
    let (address, data) = (&listener.advertised, options.data.display());
    info!("clients need: bootstrap.servers={address}");
    info!("try: echo hello | kcat -b {address} -P -t greetings; kcat -b {address} -G me greetings");
    let fate = if options.data_goes {
        "removed when the server ends; --data DIR keeps them"
    } else {
        "kept when the server ends"
    };
    info!("data are in {data}, {fate}");
}

/// Logs the end of the server, and how long it took since a signal.
pub(super) fn log_stopped(asked: Option<Instant>) {
    let took = asked.map_or(0, |at| at.elapsed().as_millis());
    info!("stopped after {took} ms: all that was acknowledged is durable");
}

/// Logs the addresses of each shard, and warns of addresses that clients cannot use.
pub(super) fn log_addresses(options: &Options) -> Result<(), Failure> {
    let listeners = &options.served.listeners;
    for number in 0..options.shards {
        for ServedListener { name, protocol, listen, advertised } in listeners {
            let (listen, advertised) = (listen.of_shard(number)?, advertised.of_shard(number)?);
            let of = match &listeners[..] {
                [_] if *protocol == SecurityProtocol::Plaintext => String::new(),
                _ => format!(" for {name} ({})", protocol.name()),
            };
            info!("shard {number} listens on {listen}{of}, clients connect to {advertised}");
        }
    }
    for (listen, listener) in options.listen.iter().zip(listeners) {
        warn_if_unreachable(listen.ip(), listener.advertised.clone())?;
    }
    Ok(())
}

/// Logs configs without effect, for operators who use a file from Kafka.
pub(super) fn log_without_effect(config: &Config) {
    let keys: Vec<_> = config.set_without_effect().collect();
    if !keys.is_empty() {
        info!("set, but without effect in muster: {}", keys.join(", "));
    }
    config.promises().for_each(|line| warn!("{line}"));
}

/// Warns of a limit on file sizes: segments of topics grow to `segment.bytes`, segments of a
/// shard's log to `offsets.topic.segment.bytes`.
pub(super) fn log_file_size_limit() {
    if let Some(limit) = muster_uring::file_size_limit() {
        warn!(
            "files may have {limit} bytes at most (RLIMIT_FSIZE, ulimit -f): the server ends when \
             a log needs more"
        );
    }
}

/// Logs altered configs that have no effect: those that the command line overrides, those with
/// invalid values, and those that muster does not obey.
pub(super) fn log_unused(config: &Config, image: &ClusterImage, number: u32) {
    let of_all = if number == CONTROLLER { config.unused_dynamic(image, "") } else { Vec::new() };
    let of_this = config.unused_dynamic(image, &number.to_string());
    of_all.iter().chain(&of_this).for_each(|line| warn!("{line}"));
    let of = |resource: &str| Config::altered_without_effect(image, resource);
    let of_all = if number == CONTROLLER { of("") } else { Vec::new() };
    for (names, of) in [(of_all, "all brokers"), (of(&number.to_string()), "its own broker")] {
        if !names.is_empty() {
            let names = names.join(", ");
            info!("shard {number}: altered for {of}, but without effect in muster: {names}");
        }
    }
}
