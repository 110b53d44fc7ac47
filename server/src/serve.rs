//! Starts the shards, each in a thread on its own core, and stops them.

mod directory;
mod driver;
mod early_stop;
mod lines;
mod nodes;
mod options;
mod ports;
mod stop_bound;

pub use options::Options;

use crate::Failure;
use crate::backup;
use crate::certificates::{CertificateThread, Certificates};
use crate::clock::{self, Clock, wall};
use crate::cluster::ClusterImage;
use crate::config::ShardTls;
use crate::data_dir::DataDir;
use crate::descriptors::Descriptors;
use crate::directories::sync_left;
use crate::disk_reserve;
use crate::disk_space::DiskSpace;
use crate::files::{Caller, DrivenIo, Freeing, block_bytes};
use crate::formation::OwnNode;
use crate::host::Host;
use crate::logging;
use crate::mailbox::Peer;
use crate::metrics::{self, Admin, ShardState, ShardStates};
use crate::random::RandomIds;
use crate::reactor::{DrivenReactor, End, Parts};
use crate::shard::{Common, ListenerIndex, Message, Shard, log_directory};
use crate::supervisor::{READY, STOPPING, notify};
use crate::telemetry_thread::TelemetryThread;
use crate::trash;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use directory::{Prepared, prepare_directory};
use driver::{Choice, Driver};
use early_stop::EarlyStop;
use lines::{
    log_addresses, log_file_size_limit, log_ready, log_start, log_stopped, log_unused,
    log_without_effect,
};
use muster_tls::Tls;
use muster_uring::ConnectionBudget;
use nodes::Connecting;
use ports::{endpoints, listen_on_all};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use stop_bound::StopBound;
use tracing::{info, warn};

/// Signals that do not end the server. (A terminal that is closed sends SIGHUP.)
const PASSING: &[i32] = &[SIGHUP, SIGUSR1, SIGUSR2];

/// Two signals within this time count as one, because some tools send the same signal to a process
/// and then to its process group.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// Runs the server until SIGTERM or SIGINT.
///
/// # Errors
/// The server cannot start. A later failure ends the process.
pub fn serve(options: &Options) -> Result<(), Failure> {
    let began = Instant::now();
    // These signals must not end the process during startup; they are handled later.
    PASSING.iter().try_for_each(|signal| flag::register(*signal, Arc::default()).map(drop))?;
    log_start(options);
    log_without_effect(&options.config);
    log_file_size_limit();
    let open_files = muster_uring::raise_open_files()?;
    let descriptors = Descriptors::share(&open_files, options.shards)?;
    let driver = Choice::make(&options.config, options.shards)?;
    let endpoints = endpoints(options)?;
    let certificates = Certificates::load(&options.config, &options.served.listeners)?;
    let states = ShardStates::new(options.shards);
    let telemetry = TelemetryThread::start(&options.config)?;
    let admin = start_admin(options, &states, &telemetry)?;
    // A write beyond RLIMIT_FSIZE fails as if the disk were full, instead of raising a signal.
    flag::register(SIGXFSZ, Arc::default())?;
    let early_stop = EarlyStop::watch(options.cluster.is_some())?;
    let prepared = prepare_directory(options, &early_stop)?;
    let Some(Prepared { mut directory, config, placement, log_sizes, node }) = prepared else {
        return Ok(());
    };
    let may_have_lost_writes = directory.meta.begin_start(&boot_id());
    backup::remove_left(&options.data);
    trash::keep_emptying(&options.data, options.config.trash_retention_ms)?;
    let common = Common {
        config: Arc::new(config),
        placement,
        endpoints,
        cluster_id: directory.meta.cluster_id.as_str().into(),
        data: options.data.to_string_lossy().into(),
        log_sizes,
        known_logs: directory.meta.logs.as_slice().into(),
        partition_files_max: descriptors.partition_files,
        audits: cfg!(debug_assertions),
        life: directory.meta.first_life(),
        may_have_lost_writes,
        stopwatch: clock::stopwatch,
        space: keep_reserve(options)?,
        token_keys: certificates.token_keys(),
        nodes: node.as_ref().map(OwnNode::nodes),
    };
    let (tls, certificates) = (certificates.of_listeners(), certificates.start()?);
    let beginning = Beginning {
        options,
        common: &common,
        budget: &ConnectionBudget::new(descriptors.connections, options.shards as usize),
        driver,
        states: &states,
        tls: &tls,
        certificates: &certificates,
        telemetry: &telemetry,
        connecting: Connecting::start(options, node)?,
    };
    let shards = start(&beginning, &directory)?;
    let peers: Vec<Peer> = shards.iter().map(|shard| shard.peer.clone()).collect();
    admin.iter().for_each(|admin| admin.set_peers(peers.clone(), common.clone()));
    // The handlers come first: a client that reads "ready" in the log may stop the server at once.
    let signals = Signals::new([SIGTERM, SIGINT].iter().chain(PASSING))?;
    early_stop.hand_over();
    log_addresses(options)?;
    log_ready(options, &directory.meta.cluster_id, began.elapsed());
    metrics::watch(states.clone(), peers)?;
    notify(READY);
    let bound = StopBound::new(&options.config, states);
    let (ends, asked) = wait(shards, signals, certificates, bound)?;
    log_stopped(asked);
    record_ends(&mut directory, ends, may_have_lost_writes);
    Ok(())
}

fn keep_reserve(options: &Options) -> std::io::Result<DiskSpace> {
    let Options { data, config, shards, .. } = options;
    disk_reserve::keep(data, config.disk_reserve_bytes, *shards)
}

/// Records the ends of the logs. Without them the next startup works, too.
fn record_ends(directory: &mut DataDir, stopped: Vec<Stopped>, may_have_lost_writes: bool) {
    let (ends, are_settled): (Vec<u64>, Vec<bool>) = stopped.into_iter().unzip();
    let is_settled = !may_have_lost_writes || are_settled.into_iter().all(|it| it);
    if let Err(error) = directory.record_ends(&ends, is_settled) {
        warn!("{error}: the next start cannot check the ends of the logs for damage");
    }
}

/// The result of a shard that has stopped: how far its log is durable, and whether all of its
/// transactions that may have lost writes before this start were settled.
type Stopped = (u64, bool);

/// Starts the admin side, which reports on the shards from their start on.
fn start_admin(
    options: &Options,
    states: &ShardStates,
    telemetry: &TelemetryThread,
) -> Result<Option<Admin>, Failure> {
    let Some(listener) = metrics::bind(&options.config)? else { return Ok(None) };
    let names = options.served.listeners.iter().map(|listener| listener.name.clone());
    let (config, names) = (&options.config, names.collect());
    let (version, states, telemetry) = (options.version, states.clone(), telemetry.clone());
    Ok(Some(Admin::start(listener, version, config, names, states, telemetry)?))
}

/// The input for the start of all shards.
struct Beginning<'b> {
    options: &'b Options,
    common: &'b Common,
    budget: &'b ConnectionBudget,
    driver: Choice,
    states: &'b ShardStates,
    /// The TLS of each listener according to the configs at startup.
    tls: &'b Arc<[Option<Tls>]>,
    certificates: &'b CertificateThread,
    telemetry: &'b TelemetryThread,
    /// In a cluster.
    connecting: Option<Connecting>,
}

struct RunningShard {
    peer: Peer,
    thread: JoinHandle<Stopped>,
}

/// Sends a shard's number and waker to the starting thread, or the reason why it did not start.
type Ready = Sender<Result<(u32, muster_uring::Waker), Failure>>;

/// The input for the start of one shard, with the channels between the threads.
struct Start {
    number: u32,
    options: Options,
    common: Common,
    budget: ConnectionBudget,
    driver: Choice,
    block_bytes: u32,
    /// The TLS of each listener according to the configs at startup.
    tls: Arc<[Option<Tls>]>,
    certificates: CertificateThread,
    telemetry: TelemetryThread,
    connecting: Option<Connecting>,
    mailbox: Receiver<Message>,
    caller: Caller,
    states: ShardStates,
    ready: Ready,
    peers: Receiver<Vec<Peer>>,
    /// Shard 0 reads the image from its log, and passes it to the other shards through these.
    images: Vec<Sender<Arc<ClusterImage>>>,
    image: Receiver<Arc<ClusterImage>>,
}

fn start(beginning: &Beginning<'_>, directory: &DataDir) -> Result<Vec<RunningShard>, Failure> {
    let Beginning { options, common, budget, driver, states, .. } = *beginning;
    let Beginning { tls, certificates, telemetry, .. } = *beginning;
    let connecting = &beginning.connecting;
    let count = options.shards as usize;
    let (ready, readiness) = bounded(count);
    let mailboxes: Vec<_> = (0..count).map(|_| unbounded()).collect();
    let peer_lists: Vec<_> = (0..count).map(|_| bounded(1)).collect();
    let image_lists: Vec<_> = (0..count).map(|_| bounded(1)).collect();
    let images: Vec<_> = image_lists.iter().map(|(sender, _)| sender.clone()).collect();
    // This thread is not pinned, so the threads that it starts may run on any core.
    let freeing = Freeing::start()?;
    let block_bytes = block_bytes(&options.data)?;
    let mut threads = Vec::new();
    for number in 0..count {
        let start = Start {
            number: number as u32,
            options: options.clone(),
            common: common.clone(),
            budget: budget.clone(),
            driver,
            block_bytes,
            tls: tls.clone(),
            certificates: certificates.clone(),
            telemetry: telemetry.clone(),
            connecting: connecting.clone(),
            mailbox: mailboxes[number].1.clone(),
            caller: Caller::start(number as u32, options.data.clone(), freeing.clone())?,
            states: states.clone(),
            ready: ready.clone(),
            peers: peer_lists[number].1.clone(),
            images: images.clone(),
            image: image_lists[number].1.clone(),
        };
        threads.push(thread::Builder::new().name(format!("shard-{number}")).spawn(|| run(start))?);
    }
    drop(ready);
    let mut wakers = vec![None; count];
    for _ in 0..count {
        let (number, waker) = readiness.recv()??;
        wakers[number as usize] = Some(waker);
    }
    directory.record_start()?;
    let peers: Vec<Peer> = wakers
        .into_iter()
        .flatten()
        .zip(&mailboxes)
        .map(|(waker, (sender, _))| Peer { sender: sender.clone(), waker })
        .collect();
    // The threads must know the peers before a shard orders certificates or passes on a push.
    certificates.set_peers(peers.clone());
    telemetry.set_peers(peers.clone());
    connecting.iter().for_each(|it| it.set_shards(peers.clone()));
    for (sender, _) in &peer_lists {
        sender.send(peers.clone())?;
    }
    let running = peers.into_iter().zip(threads);
    Ok(running.map(|(peer, thread)| RunningShard { peer, thread }).collect())
}

/// Runs in the thread of a shard. If the shard fails after its start, or panics, the process ends,
/// because the other shards must not continue without this one. No acknowledged record is lost:
/// the kernel has the records of user topics, and all other records are durable.
fn run(start: Start) -> Stopped {
    match start.driver.start(start.number) {
        Ok(Driver::Ring(ring)) => run_on(ring, start),
        Ok(Driver::Poller(poller)) => run_on(poller, start),
        Err(failure) => not_started(&start.ready, failure),
    }
}

fn run_on(driver: impl muster_uring::Driver, start: Start) -> Stopped {
    let number = start.number;
    let (ready, states) = (start.ready.clone(), start.states.clone());
    let (data, common) = (start.options.data.clone(), start.common.clone());
    let mut host = Host::new(number, data, common, start.block_bytes);
    match prepare(driver, start, &host) {
        Err(failure) => not_started(&ready, failure),
        Ok((shard, reactor)) => {
            drop(ready);
            let run = || run_shard(shard, reactor, &mut host, &states);
            let failure = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(end)) => return end,
                Ok(Err(failure)) => failure.to_string(),
                Err(_) => "it panicked".to_owned(),
            };
            logging::fail(format_args!("shard {number}: {failure}. The server ends"));
        }
    }
}

fn not_started(ready: &Ready, failure: Failure) -> Stopped {
    // The starting thread may have ended, as another shard failed first.
    let _ = ready.send(Err(failure));
    (0, false)
}

/// Runs a shard until it has stopped. If its state does not match its log, it is loaded again while
/// the other shards continue.
fn run_shard(
    mut shard: Shard,
    mut reactor: DrivenReactor<impl muster_uring::Driver>,
    host: &mut Host,
    states: &ShardStates,
) -> Result<Stopped, Failure> {
    states.set(host.number, ShardState::Serving);
    while reactor.run(&mut shard)? == End::Failed {
        states.set(host.number, ShardState::Loading);
        let left = shard.leave();
        reactor.clear()?;
        let loaded = host.load_again(wall().0)?;
        let ids = Box::new(RandomIds::new()?);
        let (again, commands) = host.reload(left, loaded, ids, reactor.times())?;
        reactor.perform_all(commands)?;
        let number = host.number;
        info!(target: "load", shard = number, "shard {number} serves again, from its log");
        states.set(host.number, ShardState::Serving);
        shard = again;
    }
    states.set(host.number, ShardState::Ended);
    let inspection = shard.inspect();
    Ok((inspection.progress().flushed(), inspection.are_transactions_settled()))
}

fn prepare<D: muster_uring::Driver>(
    mut driver: D,
    start: Start,
    host: &Host,
) -> Result<(Shard, DrivenReactor<D>), Failure> {
    let clock = Clock::start();
    driver.share_budget(start.budget);
    let mut io = DrivenIo::new(driver, start.options.data.clone(), start.caller);
    let mut files = DrivenIo::files(clock.times().now);
    let ids = Box::new(RandomIds::new()?);
    let data = &start.options.data;
    sync_left(data, &data.join(log_directory(start.options.shards, start.number)))?;
    let loaded = host.load(wall().0)?;
    if let Some(image) = loaded.image() {
        start.images.iter().try_for_each(|sender| sender.send(image.clone()))?;
    }
    drop(start.images);
    let image = start.image.recv().map_err(|_| "shard 0, which holds the topics, did not start")?;
    log_unused(&start.options.config, &image, start.number);
    let fixed = &start.common.config;
    let replacements = fixed.with_dynamic(&image, start.number).replaced_tls(fixed);
    let altered = start.certificates.begin(ShardTls { shard: start.number, replacements });
    let (shard, ops) = host.start(loaded, image, ids, clock.times())?;
    for op in ops {
        files.perform(&mut io, op)?;
    }
    let mut listeners = listen_on_all(&mut io.driver, &start.options, start.number)?;
    let for_nodes = ListenerIndex(listeners.len());
    if let Some(connecting) = &start.connecting {
        listeners.push(connecting.listen(&mut io.driver, start.number)?);
    }
    start.ready.send(Ok((start.number, io.driver.waker())))?;
    drop(start.ready);
    let peers = start.peers.recv()?;
    let Start { number, mailbox, certificates, telemetry, connecting, .. } = start;
    let dialer = connecting.as_ref().map(|it| it.dialer(number));
    let parts = Parts { io, listeners, mailbox, peers, certificates, telemetry, dialer, clock };
    let mut reactor = DrivenReactor::new(parts, files);
    if let Some(connecting) = connecting {
        let now = reactor.times().now;
        reactor.connect(connecting.peers(number, now), for_nodes);
    }
    reactor.secure(altered.unwrap_or(start.tls));
    Ok((shard, reactor))
}

/// Waits until all shards have ended, which a signal requests. Returns the result of each shard,
/// and when the signal came, if there was one.
fn wait(
    shards: Vec<RunningShard>,
    mut signals: Signals,
    certificates: CertificateThread,
    bound: StopBound,
) -> Result<(Vec<Stopped>, Option<Instant>), Failure> {
    let peers: Vec<Peer> = shards.iter().map(|shard| shard.peer.clone()).collect();
    let stop_asked = Arc::<OnceLock<Instant>>::default();
    let first = stop_asked.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP && certificates.reload() {
                info!("signal {signal}: loads the certificates again");
                continue;
            }
            if PASSING.contains(&signal) {
                info!("signal {signal} changes nothing: SIGTERM and SIGINT end the server");
                continue;
            }
            if let Some(at) = first.get() {
                if at.elapsed() < SAME_SIGNAL {
                    continue;
                }
                logging::fail("stopped by a second signal");
            }
            first.get_or_init(Instant::now);
            info!("stops on signal {signal}: no further requests");
            notify(STOPPING);
            bound.begin();
            peers.iter().for_each(|peer| peer.send(Message::Stop));
        }
    })?;
    let end = |shard: RunningShard| shard.thread.join().map_err(|_| "a shard panicked".into());
    let ends = shards.into_iter().map(end).collect::<Result<_, Failure>>()?;
    Ok((ends, stop_asked.get().copied()))
}

/// The kernel's boot id. When it changes, the contents of memory were lost. If it cannot be read,
/// each start counts as a new boot.
fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| format!("unknown-{}", wall().0), |id| id.trim().to_owned())
}
