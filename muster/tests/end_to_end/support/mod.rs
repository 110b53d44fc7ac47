//! A server in its own process, and a client for it.

pub mod admin;
pub mod alice;
pub mod attacks;
pub mod bulk;
pub mod consumers;
pub mod driver;
pub mod facts;
pub mod files;
pub mod honest;
pub mod http;
pub mod liveness;
pub mod mixed;
pub mod offsets;
pub mod power;
mod random;
pub mod records;
pub mod room;
pub mod rules;
pub mod sessions;
pub mod snapshots;
pub mod streams;
pub mod transactional;
pub mod workers;

pub use random::Random;

use muster_codec::header::RequestHeader;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{ApiKey, Bytes, Reader, Request, Response, Uuid};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// If something takes longer, it hangs. This does not measure speed: a disk may stall for a minute.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A running `muster serve` on free ports of 127.0.0.1. It is killed when this is dropped.
pub struct Server {
    process: Child,
    pub port: u16,
    pub shards: u16,
    data: PathBuf,
    configs: Vec<String>,
    log: Arc<Mutex<String>>,
}

impl Server {
    pub fn start(data: &Path, shards: u16, configs: &[&str]) -> Self {
        let configs = configs.iter().map(|config| config.to_string()).collect();
        Self::spawn(data.to_owned(), free_ports(shards), shards, configs)
    }

    /// A server with one shard and a limit of file descriptors.
    pub fn with_open_files(data: &Path, open_files: u64) -> Self {
        Self::with_few_descriptors(data, open_files, 1, &[])
    }

    /// A server with a limit of file descriptors.
    pub fn with_few_descriptors(
        data: &Path,
        open_files: u64,
        shards: u16,
        configs: &[&str],
    ) -> Self {
        let port = free_ports(shards);
        let limited = limited(data, port, open_files, shards, configs);
        Self::run(limited, data.to_owned(), port, shards, Vec::new())
    }

    /// A server with its addresses among the arguments. Its first port is `port`.
    pub fn with_arguments(data: &Path, port: u16, shards: u16, arguments: &[&str]) -> Self {
        Self::of(command_with(data, shards, arguments), data, port, shards)
    }

    /// Starts a command as a server with this data directory and these ports.
    pub fn of(command: Command, data: &Path, port: u16, shards: u16) -> Self {
        Self::run(command, data.to_owned(), port, shards, Vec::new())
    }

    /// Starts the same server again, after it was killed or stopped.
    pub fn restart(self) -> Self {
        let (data, configs) = (self.data.clone(), self.configs.clone());
        let (port, shards) = (self.port, self.shards);
        drop(self);
        Self::spawn(data, port, shards, configs)
    }

    fn spawn(data: PathBuf, port: u16, shards: u16, configs: Vec<String>) -> Self {
        let command = command(&data, port, shards, &configs);
        Self::run(command, data, port, shards, configs)
    }

    fn run(
        mut command: Command,
        data: PathBuf,
        port: u16,
        shards: u16,
        configs: Vec<String>,
    ) -> Self {
        let mut process = command.spawn().unwrap();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(process.stdout.take().unwrap()), Box::new(process.stderr.take().unwrap())];
        let (ready, readiness) = std::sync::mpsc::channel();
        let log = Arc::<Mutex<String>>::default();
        for output in outputs {
            let (written, ready) = (log.clone(), ready.clone());
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    eprintln!("server: {line}");
                    let listens = line.contains("listens on");
                    written.lock().unwrap().push_str(&(line + "\n"));
                    if listens {
                        let _ = ready.send(());
                    }
                }
            });
        }
        drop(ready);
        // If this panics from here on, the drop of `server` ends the process.
        let server = Self { process, port, shards, data, configs, log };
        for _ in 0..shards {
            readiness.recv_timeout(PATIENCE).expect("the server listens");
        }
        server
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The peak of the process's memory, in bytes.
    pub fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// Ends the process with kill -9.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops the process with SIGTERM. Returns its exit status.
    pub fn stop(&mut self) -> ExitStatus {
        let kill = Command::new("kill").arg(self.pid().to_string()).status().unwrap();
        assert!(kill.success());
        self.wait()
    }

    /// The exit status, if the process has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// Waits until the process ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.process.try_wait().unwrap() {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "the server does not end"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for a log line that contains `text`.
    pub fn says(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log.lock().unwrap().contains(text) {
            assert!(Instant::now() < deadline, "the server does not say {text:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The first log line that contains `text`. Waits for it.
    pub fn line_with(&self, text: &str) -> String {
        self.says(text);
        let log = self.log.lock().unwrap();
        log.lines().find(|line| line.contains(text)).unwrap().to_owned()
    }

    /// The number of log lines so far that contain `text`.
    pub fn lines_with(&self, text: &str) -> usize {
        self.log.lock().unwrap().lines().filter(|line| line.contains(text)).count()
    }

    pub fn client(&self, shard: u16) -> Client {
        Client::connect(self.port + shard)
    }

    /// A connection to the shard that coordinates a group, found by FindCoordinator.
    pub fn coordinator(&self, group: &str) -> Client {
        self.coordinators().connect(group).expect("an answer")
    }

    pub fn coordinators(&self) -> Coordinators {
        Coordinators { port: self.port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Finds coordinators. It can be used from other threads, and while the server ends.
pub struct Coordinators {
    port: u16,
}

impl Coordinators {
    /// A connection to the coordinator of a group. `None` if the server has ended.
    pub fn connect(&self, group: &str) -> Option<Client> {
        Client::try_connect(self.port + self.shard(group)?)
    }

    /// The shard that coordinates a group. `None` if the server has ended.
    pub fn shard(&self, group: &str) -> Option<u16> {
        let request = FindCoordinatorRequest { key: group.to_owned().into(), ..Default::default() };
        let response = Client::try_connect(self.port)?.try_call(3, request.into())?;
        let Response::FindCoordinator(body) = response else { panic!("{response:?}") };
        assert_eq!(body.error_code, 0);
        Some(body.port as u16 - self.port)
    }
}

/// The command `muster serve` with a limit of file descriptors, not started yet.
pub fn limited(data: &Path, port: u16, open_files: u64, shards: u16, configs: &[&str]) -> Command {
    let configs: Vec<_> = configs.iter().map(|config| config.to_string()).collect();
    let server = command(data, port, shards, &configs);
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--nofile={open_files}")).arg(server.get_program());
    limited.args(server.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    limited
}

/// The command `muster serve`, not started yet.
pub fn command(data: &Path, port: u16, shards: u16, configs: &[String]) -> Command {
    let listen = format!("127.0.0.1:{port}");
    let configs = configs.iter().map(String::as_str);
    let arguments: Vec<_> = ["--listen", &listen].into_iter().chain(configs).collect();
    command_with(data, shards, &arguments)
}

/// Like [`command`], but the caller's arguments contain the addresses. Unless they name an admin
/// listener, there is none: servers of several tests run at once and would share its port.
pub fn command_with(data: &Path, shards: u16, arguments: &[&str]) -> Command {
    let mut command = binary();
    let has = |key| arguments.iter().any(|it| it.starts_with(key));
    let no_admin = (!has("admin.listener=")).then_some("admin.listener=");
    // The reserve file is small, because tests copy and compare whole data directories.
    let reserve = (!has("disk.reserve.bytes=")).then_some("disk.reserve.bytes=65536");
    let driver = driver::config().filter(|_| !has("io.driver="));
    command
        .args(["serve", "--shards", &shards.to_string(), "--data"])
        .arg(data)
        .args(arguments)
        .args(no_admin)
        .args(reserve)
        .args(driver)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The command `muster`. By default it is the binary of the tests' own build. `MUSTER_BINARY` can
/// name another one, such as an optimized binary.
pub fn binary() -> Command {
    let of_this_build = || env!("CARGO_BIN_EXE_muster").into();
    Command::new(std::env::var_os("MUSTER_BINARY").unwrap_or_else(of_this_build))
}

/// The text on both outputs of a server that ended by itself.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// The first of `count` consecutive free ports.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + (std::process::id() as u16 % 100) * 100;
    loop {
        let base = start + NEXT.fetch_add(count, Ordering::Relaxed) % 10_000;
        let free = |i| TcpListener::bind(("127.0.0.1", base + i)).is_ok();
        if (0..count).all(free) {
            return base;
        }
    }
}

/// A connection, for one request at a time or for pipelined requests.
pub struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub fn connect(port: u16) -> Self {
        Self::try_connect(port).expect("a connection")
    }

    /// Connects to a server. `None` if no server listens.
    pub fn try_connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Some(Self { stream, correlation_id: 0 })
    }

    pub fn call(&mut self, version: i16, request: Request<'_>) -> Response<'static> {
        self.try_call(version, request).expect("an answer")
    }

    /// Sends a request, and returns its answer. `None` if the connection ends before.
    pub fn try_call(&mut self, version: i16, request: Request<'_>) -> Option<Response<'static>> {
        let api = request.api_key();
        let id = self.send(version, &request)?;
        self.receive(api, version, id)
    }

    /// Sends a request without waiting for its answer. Returns the correlation id.
    pub fn send(&mut self, version: i16, request: &Request<'_>) -> Option<i32> {
        self.correlation_id += 1;
        let frame = frame(version, self.correlation_id, request);
        self.stream.write_all(&frame).ok()?;
        Some(self.correlation_id)
    }

    /// Sends raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, api: ApiKey, version: i16, id: i32) -> Option<Response<'static>> {
        let body = self.receive_frame()?;
        let mut reader = Reader::new(&body);
        assert_eq!(reader.i32().unwrap(), id, "answers come in order");
        if api.flexible_response_header(version) {
            assert_eq!(reader.u8().unwrap(), 0);
        }
        // A response borrows from its frame. Tests keep responses, so the frame is never freed.
        let rest: &'static [u8] = reader.rest().to_vec().leak();
        Some(Response::read(api, version, &mut Reader::new(rest)).unwrap())
    }

    /// The contents of the next frame. `None` if the connection ended.
    pub fn receive_frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut body = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// Waits until the server sends a byte or closes the connection. Returns true if it closes the
    /// connection, and false if it does neither within the timeout.
    pub fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// A complete request frame.
pub fn frame(version: i16, correlation_id: i32, request: &Request<'_>) -> Vec<u8> {
    frame_of("test", version, correlation_id, request)
}

/// Like [`frame`], with a client id.
pub fn frame_of(
    client_id: &str,
    version: i16,
    correlation_id: i32,
    request: &Request<'_>,
) -> Vec<u8> {
    let header = RequestHeader {
        api_key: request.api_key() as i16,
        api_version: version,
        correlation_id,
        client_id: Some(client_id.into()),
    };
    let mut out = vec![0; 4];
    header.write(&mut out);
    request.write(version, &mut out).unwrap();
    let length = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Appends a record to partition 0 of the topic. Returns its acknowledged offset. `None` if the
/// server has ended.
pub fn produce(client: &mut Client, topic: &'static str, value: &[u8]) -> Option<i64> {
    produce_to(client, topic, 0, value)
}

pub fn produce_to(
    client: &mut Client,
    topic: &'static str,
    index: i32,
    value: &[u8],
) -> Option<i64> {
    produce_to_all(client, topic, index..index + 1, value).map(|offsets| offsets[0])
}

/// Sends one request with a record for each partition. Returns the offsets.
pub fn produce_to_all(
    client: &mut Client,
    topic: &'static str,
    partitions: std::ops::Range<i32>,
    value: &[u8],
) -> Option<Vec<i64>> {
    let batch = batch(value);
    let partition = |index| {
        let records = Some(Bytes::from(batch.clone()));
        PartitionProduceData { index, records }
    };
    let partition_data = partitions.map(partition).collect();
    let topic = TopicProduceData { name: topic.into(), partition_data, ..Default::default() };
    let topic_data = vec![topic];
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data, ..Default::default() };
    let Response::Produce(body) = client.try_call(9, request.into())? else { panic!() };
    let partitions = &body.responses[0].partition_responses;
    assert!(partitions.iter().all(|partition| partition.error_code == 0));
    Some(partitions.iter().map(|partition| partition.base_offset).collect())
}

/// A batch with one record. The record's timestamp is the current time, because retention could
/// delete an older record during a test on a slow machine.
pub fn batch(value: &[u8]) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let mut builder = BatchBuilder::default();
    builder.append(now, &(&b"key"[..], Some(value)));
    builder.seal(0, -1).to_vec()
}

/// Creates a topic, and waits until all shards know it.
pub fn create_topic(server: &Server, name: &str, partitions: i32) {
    let topic = CreatableTopic {
        name: name.to_owned().into(),
        num_partitions: partitions,
        replication_factor: -1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = server.client(0).call(7, request.into());
    let Response::CreateTopics(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].error_code, 0, "{:?}", body.topics[0].error_message);
    for shard in 0..server.shards {
        let deadline = Instant::now() + PATIENCE;
        while !knows_topic(&mut server.client(shard), name) {
            assert!(Instant::now() < deadline, "shard {shard} does not have {name}");
        }
    }
}

/// The id of a topic, from Metadata.
pub fn topic_id(client: &mut Client, name: &str) -> Uuid {
    let topic = MetadataRequestTopic { name: Some(name.to_owned().into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let response = client.call(12, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].error_code, 0);
    body.topics[0].topic_id
}

fn knows_topic(client: &mut Client, name: &str) -> bool {
    let topic = MetadataRequestTopic { name: Some(name.to_owned().into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let response = client.call(9, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    body.topics[0].error_code == 0
}

/// A number from an environment variable.
pub fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
