//! Starts a server on a directory, and reports the outcome.

use super::kinds::{JUDGING, Kind};
use super::truth::Truth;
use crate::support::{PATIENCE, command, free_ports};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The outcome of starting a server.
#[derive(Debug)]
pub enum Outcome {
    /// The server served, and stopped when it was asked to.
    Served(Truth),
    /// The server ended with this exit status before it served.
    Refused(i32),
    /// The server ended with this exit status while it served.
    Died(i32),
}

#[derive(Debug)]
pub struct Trial {
    pub outcome: Outcome,
    /// The lines of both outputs.
    pub lines: Vec<String>,
}

impl Trial {
    pub fn says(&self, word: &str) -> bool {
        self.lines.iter().any(|line| line.contains(word))
    }

    /// Whether a warning or an error contains all these words.
    pub fn warns(&self, words: &[&str]) -> bool {
        let is_warning = |line: &&String| line.contains("WARN") || line.contains("ERROR");
        let holds_all = |line: &String| words.iter().all(|word| line.contains(word));
        self.lines.iter().filter(is_warning).any(holds_all)
    }
}

/// Starts a server, reads all data that it serves, and stops it.
pub fn start(data: &Path, kind: Kind) -> Trial {
    let port = free_ports(kind.shards);
    let configs: Vec<String> = JUDGING.iter().map(|config| (*config).to_owned()).collect();
    let mut command = command(data, port, kind.shards, &configs);
    let mut process = Process(command.stderr(Stdio::piped()).spawn().unwrap());
    let incoming = process.lines();
    let mut lines = Vec::new();
    let outcome = if listens(&incoming, kind.shards, &mut lines) {
        match truth(port, kind.shards, &mut process) {
            Some(truth) => stop(&mut process, truth),
            None => Outcome::Died(process.wait()),
        }
    } else {
        Outcome::Refused(process.wait())
    };
    lines.extend(incoming);
    Trial { outcome, lines }
}

/// Waits until all shards listen. Returns false if the process closes its outputs before.
fn listens(incoming: &Receiver<String>, shards: u16, lines: &mut Vec<String>) -> bool {
    let mut listening = 0;
    while listening < shards {
        match incoming.recv_timeout(PATIENCE) {
            Ok(line) => {
                listening += u16::from(line.contains("listens on"));
                lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("the server does not start: {lines:#?}"),
        }
    }
    true
}

/// Reads all data. A shard that was damaged is loaded again and closes its connections, so reading
/// is retried. `None` if the process ended.
fn truth(port: u16, shards: u16, process: &mut Process) -> Option<Truth> {
    let deadline = Instant::now() + PATIENCE;
    while process.0.try_wait().unwrap().is_none() {
        if let Some(truth) = Truth::of(port, shards) {
            return Some(truth);
        }
        assert!(Instant::now() < deadline, "the server does not answer");
        thread::sleep(Duration::from_millis(10));
    }
    None
}

fn stop(process: &mut Process, truth: Truth) -> Outcome {
    let pid = process.0.id().to_string();
    let killed = std::process::Command::new("kill").arg(pid).status().unwrap();
    match process.wait() {
        0 if killed.success() => Outcome::Served(truth),
        status => Outcome::Died(status),
    }
}

struct Process(Child);

impl Process {
    /// The lines of both outputs, in order of arrival.
    fn lines(&mut self) -> Receiver<String> {
        let (sender, receiver) = mpsc::channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(self.0.stdout.take().unwrap()), Box::new(self.0.stderr.take().unwrap())];
        for output in outputs {
            let sender = sender.clone();
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.for_each(|line| drop(sender.send(line)));
            });
        }
        receiver
    }

    fn wait(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "the server does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
