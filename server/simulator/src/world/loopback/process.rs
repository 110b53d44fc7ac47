//! The process of a real server.

use super::ports::Ports;
use crate::disk::scratch;
use loadgen::topics::Topic;
use muster_codec::header::RequestHeader;
use muster_codec::messages::MetadataRequest;
use muster_codec::{ApiKey, Request, Response};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use tempfile::TempDir;

/// The number of log bytes that are shown of a server that ended by itself.
const LAST_BYTES: usize = 2_000;

/// The time in which a server must answer a request of the simulator itself.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const METADATA_VERSION: i16 = 12;
/// The maximum size of an answer with all topics of a run.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The server of loopback runs.
#[derive(Debug, Clone)]
pub struct Target {
    /// The binary `muster`.
    pub server: PathBuf,
    /// The value of `io.driver`.
    pub driver: String,
}

pub(super) struct Process {
    target: Target,
    place: TempDir,
    shards: u16,
    ports: Ports,
    configs: Vec<String>,
    child: Option<Child>,
    /// The number of processes so far.
    life: u32,
}

impl Process {
    /// A server with its files in a new directory. The server does not run yet.
    ///
    /// # Errors
    /// There is no directory, or there are no free ports.
    pub(super) fn new(target: &Target, shards: u16, configs: &[String]) -> io::Result<Self> {
        let place = tempfile::tempdir_in(scratch())?;
        let ports = Ports::take(shards)?;
        let (target, configs) = (target.clone(), configs.to_vec());
        Ok(Self { target, place, shards, ports, configs, child: None, life: 0 })
    }

    /// The data directory of the server.
    pub(super) fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    pub(super) fn first_port(&self) -> u16 {
        self.ports.first()
    }

    pub(super) fn life(&self) -> u32 {
        self.life
    }

    pub(super) fn is_there(&self) -> bool {
        self.child.is_some()
    }

    pub(super) fn address(&self, shard: u32) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.first() + shard as u16).into()
    }

    /// # Errors
    /// The process cannot be started.
    pub(super) fn start(&mut self) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&self.target.server);
        let listen = self.address(0).to_string();
        command.args(["serve", "--shards", &self.shards.to_string(), "--listen", &listen]);
        command.arg("--data").arg(self.data()).args(&self.configs);
        command.args(["admin.listener=", "disk.reserve.bytes=65536"]);
        command.arg(format!("io.driver={}", self.target.driver));
        command.stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn()?);
        self.life += 1;
        Ok(())
    }

    /// Whether all shards accept connections.
    pub(super) fn listens(&self) -> bool {
        let accepts = |shard| TcpStream::connect(self.address(shard)).is_ok();
        self.is_there() && (0..u32::from(self.shards)).all(accepts)
    }

    /// The status of a process that has ended by itself, or was stopped.
    ///
    /// # Errors
    /// The status cannot be read.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }

    /// Ends the process with SIGKILL.
    ///
    /// # Errors
    /// The process cannot be ended.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait().map(drop)
    }

    /// # Errors
    /// The process no longer exists.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let Some(child) = &self.child else { return Ok(()) };
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// The topics that a shard knows.
    ///
    /// # Errors
    /// The shard does not answer.
    pub(super) fn topics(&self, shard: u32) -> io::Result<Vec<Topic>> {
        let mut stream = TcpStream::connect(self.address(shard))?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let header = RequestHeader {
            api_key: ApiKey::Metadata as i16,
            api_version: METADATA_VERSION,
            correlation_id: 0,
            client_id: None,
        };
        let request: Request<'_> = MetadataRequest { topics: None, ..Default::default() }.into();
        let mut frame = vec![0; 4];
        header.write(&mut frame);
        request.write(METADATA_VERSION, &mut frame).map_err(io::Error::other)?;
        let length = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        stream.write_all(&frame)?;
        topics_in(&answer(&mut stream)?).map_err(io::Error::other)
    }

    /// The last lines that the server logged.
    pub(super) fn last_lines(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let last = log.len().saturating_sub(LAST_BYTES);
        String::from_utf8_lossy(&log[last..]).into_owned()
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("server.log")
    }
}

impl Drop for Process {
    /// Kills the server, so that none runs longer than its run. If this fails, it has ended
    /// already.
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > ANSWER_BYTES_MAX {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn topics_in(frame: &[u8]) -> Result<Vec<Topic>, String> {
    let response = crate::client::read_response(ApiKey::Metadata as i16, METADATA_VERSION, frame);
    let Response::Metadata(body) = response.map_err(|error| error.to_string())? else {
        return Err("an answer of another kind".to_owned());
    };
    let topic = |topic: &muster_codec::messages::MetadataResponseTopic<'_>| Topic {
        name: topic.name.as_deref().unwrap_or_default().into(),
        id: topic.topic_id,
        partitions: topic.partitions.len() as u32,
    };
    Ok(body.topics.iter().filter(|it| !it.is_internal).map(topic).collect())
}
