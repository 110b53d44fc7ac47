//! The workers of a run, from the view of the machine that conducts it.

use std::collections::HashMap;
use std::io::BufReader;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::SILENCE;
use super::clocks::{Alignment, Round};
use super::frame::{FrameError, greet, greeted, read, write};
use super::message::{Answer, Begin, Order, Ready};
use super::report;
use crate::driver::Clock;
use crate::driver::command::{Cluster, Command, CoreReport};
use crate::plan::{GroupIndex, GroupPlan};
use crate::time::Time;

/// The capacity of the queue of received reports. While it is full, the workers have to wait.
const REPORTS_MAX: usize = 256;
const CONNECT: Duration = Duration::from_secs(10);
/// How long a worker may take to become ready, which includes its connection to the cluster.
const READY: Duration = Duration::from_secs(90);
/// How often a worker is asked for its time.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The maximum error of times. A larger error would hide violations, or report false ones.
const CLOCK_ERROR_MAX: Duration = Duration::from_millis(5);
/// How far clocks may drift before they are aligned again.
const DRIFT: Duration = Duration::from_millis(1);

/// A machine that generates load, for the report.
#[derive(Clone, PartialEq, Debug)]
pub struct Worker {
    pub address: String,
    pub host: String,
    pub cores: usize,
    /// The maximum error of the known difference between the worker's clock and this machine's.
    pub clock_error: Duration,
}

/// All workers of a run. Their cores are numbered in one sequence, worker after worker.
pub struct Fleet {
    cluster: Cluster,
    clock: Clock,
    remotes: Vec<Remote>,
    reports: Receiver<CoreReport>,
    lost: Arc<AtomicBool>,
    clock_error: Duration,
}

/// A worker. A thread reads its messages.
struct Remote {
    worker: Worker,
    first: usize,
    stream: TcpStream,
    alignment: Arc<Mutex<Alignment>>,
    /// The groups whose plans were sent to the worker.
    groups: HashMap<GroupIndex, Arc<GroupPlan>>,
    asked: Instant,
    loss: Loss,
}

/// Reports the loss of a worker, once for each of the worker's cores.
#[derive(Clone)]
struct Loss {
    address: String,
    cores: std::ops::Range<usize>,
    reports: Sender<CoreReport>,
    reported: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
}

/// Connects to the workers and waits until all are ready. Returns them, and the bootstrap servers
/// of the first worker. The run's time begins here.
///
/// # Errors
/// A worker can't be reached, refuses, is connected to another cluster, or is so far away that its
/// clock can't be aligned. The error is a sentence for the user.
pub fn start(addresses: &[String], begin: &Begin) -> Result<(Fleet, Vec<String>), String> {
    let starting = std::thread::scope(|scope| {
        let starting = addresses.iter().enumerate().map(|(number, address)| {
            let begin = begin.of_worker(number);
            scope.spawn(move || ready(address, &begin))
        });
        let starting: Vec<_> = starting.collect();
        let joined = starting.into_iter().map(|one| {
            one.join().unwrap_or_else(|_| Err("the connection to a worker panicked".into()))
        });
        joined.collect::<Result<Vec<_>, String>>()
    })?;
    let first = starting.first().ok_or("no worker is named")?;
    let (cluster, bootstrap) = (first.2.cluster.clone(), first.2.bootstrap.clone());
    for (address, _, ready) in &starting {
        if ready.cluster.cluster_id != cluster.cluster_id {
            let first = &starting[0].0;
            return Err(format!("workers {first} and {address} are connected to two clusters"));
        }
    }
    let clock = Clock::start();
    let (sender, reports) = bounded(REPORTS_MAX);
    let lost = Arc::<AtomicBool>::default();
    let mut fleet =
        Fleet { cluster, clock, remotes: Vec::new(), reports, lost, clock_error: Duration::ZERO };
    for (address, stream, ready) in starting {
        fleet.add(address, stream, ready, &sender)?;
    }
    fleet.align()?;
    Ok((fleet, bootstrap))
}

fn ready(address: &str, begin: &Begin) -> Result<(String, TcpStream, Ready), String> {
    let failed = |why: String| format!("worker {address}: {why}");
    let mut stream = connect(address).map_err(failed)?;
    let mut begun = || {
        greet(&mut stream)?;
        greeted(&mut stream)?;
        stream.set_read_timeout(Some(READY))?;
        write(&mut stream, &Order::Begin(begin.clone()))?;
        read(&mut stream)
    };
    match begun().map_err(|error: FrameError| failed(error.to_string()))? {
        Answer::Ready(ready) if (1..=4096).contains(&ready.cores) => {
            Ok((address.to_owned(), stream, *ready))
        }
        Answer::Refused(why) => Err(failed(why)),
        Answer::Ready(_) | Answer::Time { .. } | Answer::Report(_) => {
            Err(failed("its answer is not understood".into()))
        }
    }
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let all = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "the name has no address".to_owned();
    for one in all {
        match TcpStream::connect_timeout(&one, CONNECT) {
            Ok(stream) => return patient(stream).map_err(|error| error.to_string()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

fn patient(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

impl Fleet {
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn cores(&self) -> usize {
        self.remotes.iter().map(|remote| remote.worker.cores).sum()
    }

    pub(super) fn cores_of_first(&self) -> usize {
        self.remotes.first().map_or(0, |remote| remote.worker.cores)
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }

    pub fn workers(&self) -> Vec<Worker> {
        self.remotes.iter().map(|remote| remote.worker.clone()).collect()
    }

    pub fn clock_error(&self) -> Duration {
        self.clock_error
    }

    pub fn has_lost_one(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Sends a command to a core. If its worker is lost, the command is dropped, because the loss
    /// was reported.
    pub(super) fn send(&mut self, core: usize, command: &Command) {
        let remote = self.remotes.iter_mut().find(|remote| remote.cores().contains(&core));
        if let Some(remote) = remote {
            remote.command(core, command);
        }
    }

    pub(super) fn receive(&mut self, timeout: Duration) -> Option<CoreReport> {
        let now = self.clock.now();
        for remote in &mut self.remotes {
            if remote.asked.elapsed() >= ASK_EVERY {
                remote.ask(now);
            }
        }
        self.reports.recv_timeout(timeout).ok()
    }

    fn add(
        &mut self,
        address: String,
        stream: TcpStream,
        ready: Ready,
        reports: &Sender<CoreReport>,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("worker {address}: {error}");
        stream.set_read_timeout(Some(SILENCE)).map_err(failed)?;
        let reading = stream.try_clone().map_err(failed)?;
        let first = self.cores();
        let loss = Loss {
            address: address.clone(),
            cores: first..first + ready.cores,
            reports: reports.clone(),
            reported: Arc::default(),
            lost: Arc::clone(&self.lost),
        };
        let alignment = Arc::<Mutex<Alignment>>::default();
        let reader =
            Reader { loss: loss.clone(), alignment: Arc::clone(&alignment), clock: self.clock };
        let thread = std::thread::Builder::new().name("worker".into());
        thread.spawn(move || reader.run(reading)).map_err(failed)?;
        let warnings = ready.cluster.warnings.iter().map(|why| format!("{address}: {why}"));
        if first > 0 {
            self.cluster.warnings.extend(warnings);
        }
        let (host, cores, clock_error) = (ready.host, ready.cores, Duration::ZERO);
        self.remotes.push(Remote {
            worker: Worker { address, host, cores, clock_error },
            first,
            stream,
            alignment,
            groups: HashMap::new(),
            asked: Instant::now(),
            loss,
        });
        Ok(())
    }

    /// Asks each worker for its time, one request after the other.
    fn align(&mut self) -> Result<(), String> {
        let clock = self.clock;
        for remote in &mut self.remotes {
            let error = remote.align(&clock)?;
            remote.worker.clock_error = error;
            // The errors of two machines may have opposite signs.
            self.clock_error = self.clock_error.max(error * 2 + DRIFT);
        }
        Ok(())
    }
}

impl Remote {
    fn cores(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.worker.cores
    }

    fn command(&mut self, core: usize, command: &Command) {
        if let Command::Start { member, .. } = command {
            let known = self.groups.get(&member.group.index);
            if known.is_none_or(|known| !Arc::ptr_eq(known, &member.group)) {
                self.groups.insert(member.group.index, Arc::clone(&member.group));
                self.write(&Order::Group(GroupPlan::clone(&member.group)));
            }
        }
        let mut order = Order::of(core - self.first, command);
        if let Order::Start { at, .. } | Order::Stop { at, .. } | Order::Subscribe { at, .. } =
            &mut order
        {
            *at = aligned(&self.alignment).theirs(*at);
        }
        self.write(&order);
    }

    fn ask(&mut self, now: Time) {
        self.asked = Instant::now();
        self.write(&Order::Time { asked: now });
    }

    fn write(&mut self, order: &Order) {
        if self.loss.is_reported() {
            return;
        }
        if let Err(error) = write(&mut self.stream, order) {
            self.loss.report(&error.to_string());
        }
    }

    fn align(&mut self, clock: &Clock) -> Result<Duration, String> {
        let address = self.worker.address.clone();
        let until = Instant::now() + SILENCE;
        while !aligned(&self.alignment).is_known() {
            if self.loss.is_reported() || Instant::now() > until {
                return Err(format!("worker {address} does not report its time"));
            }
            self.ask(clock.now());
            // Waits, so that the worker has answered this request before the next one arrives.
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let error = aligned(&self.alignment).error();
        if error <= CLOCK_ERROR_MAX {
            Ok(error)
        } else {
            Err(format!(
                "worker {address} is too far away: its clock can be aligned to {error:?} only"
            ))
        }
    }
}

fn aligned(alignment: &Mutex<Alignment>) -> MutexGuard<'_, Alignment> {
    alignment.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Ends the reading thread. If the connection is broken, the thread has ended already.
        self.loss.reported.store(true, Ordering::SeqCst);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// The thread that reads a worker's messages.
struct Reader {
    loss: Loss,
    alignment: Arc<Mutex<Alignment>>,
    clock: Clock,
}

impl Reader {
    fn run(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let mut left = self.loss.cores.len();
        while left > 0 {
            let answer = read::<Answer>(&mut stream).map_err(|error| error.to_string());
            match answer.and_then(|answer| self.take(answer)) {
                Ok(ended) => left -= usize::from(ended),
                Err(why) => return self.loss.report(&why),
            }
        }
        // The connection is no longer needed.
        self.loss.reported.store(true, Ordering::SeqCst);
    }

    /// Handles an answer. Returns true if the core of a report has ended, or if the run is over.
    fn take(&self, answer: Answer) -> Result<bool, String> {
        match answer {
            Answer::Time { asked, theirs } => {
                let answered = self.clock.now();
                if asked > answered {
                    return Err("it answers questions that were not asked".into());
                }
                aligned(&self.alignment).add(Round { asked, theirs, answered });
                Ok(false)
            }
            Answer::Report(report) => {
                let core = self.loss.cores.clone().nth(report.core);
                let core = core.ok_or("it reports cores that it does not have")?;
                let ended = report.ended.is_some();
                let report = report.take(core, &aligned(&self.alignment))?;
                // If nothing receives reports, the run is over.
                Ok(self.loss.reports.send(report).is_err() || ended)
            }
            Answer::Ready(_) | Answer::Refused(_) => Err("its answer is not understood".into()),
        }
    }
}

impl Loss {
    fn is_reported(&self) -> bool {
        self.reported.load(Ordering::SeqCst)
    }

    fn report(&self, why: &str) {
        if self.reported.swap(true, Ordering::SeqCst) {
            return;
        }
        self.lost.store(true, Ordering::SeqCst);
        let why = format!("worker {} was lost: {why}", self.address);
        for core in self.cores.clone() {
            // If nothing receives reports, the run is over.
            drop(self.reports.send(report::last(core, &why)));
        }
    }
}
