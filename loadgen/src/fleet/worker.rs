//! A worker: executes the orders of the machine that conducts a run, one run at a time. The cluster
//! and the way to connect to it are the worker's own settings, so no secret crosses the network.

use std::collections::HashMap;
use std::io::{BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use super::SILENCE;
use super::frame::{FrameError, greet, greeted, read, write};
use super::message::{
    Answer, Begin, Order, Ready, Topic, check_group, check_member, check_workload,
};
use super::report::Report;
use crate::driver::command::{Command, Target};
use crate::driver::{self, Clock, Driver};
use crate::plan::{GroupIndex, GroupPlan};

/// The maximum number of orders that wait. The other side waits if there are more.
const ORDERS_MAX: usize = 4096;
/// The maximum number of connections at a time. At most one of them has a run.
const CLIENTS_MAX: usize = 16;
/// How long the worker waits for a report of its cores. Meanwhile, orders have to wait.
const TURN: Duration = Duration::from_millis(5);

/// Serves until the listener fails. Calls `note` with a sentence when a connection that it served
/// has ended.
///
/// # Errors
/// No more connections can be accepted. The error is the reason.
pub fn serve(
    listener: &TcpListener,
    host: &str,
    target: impl Fn() -> Result<Target, String> + Sync,
    note: impl Fn(&str) + Sync,
) -> Result<(), String> {
    let (busy, clients) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        loop {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(format!("no connection can be accepted: {error}")),
            };
            if clients.fetch_add(1, Ordering::SeqCst) >= CLIENTS_MAX {
                clients.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (busy, clients, target, note) = (&busy, &clients, &target, &note);
            scope.spawn(move || {
                let worker = Worker { host, busy, target };
                match worker.greet_and_run(stream) {
                    Ok(()) => note(&format!("the run of {from} has ended")),
                    Err(why) => note(&format!("{from}: {why}")),
                }
                clients.fetch_sub(1, Ordering::SeqCst);
            });
        }
    })
}

struct Worker<'a, F> {
    host: &'a str,
    busy: &'a AtomicBool,
    target: &'a F,
}

/// Frees the worker for the next run, even after a panic.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl<F: Fn() -> Result<Target, String>> Worker<'_, F> {
    fn greet_and_run(&self, mut stream: TcpStream) -> Result<(), String> {
        let begin = begin(&mut stream).map_err(|error| error.to_string())?;
        let (free, taken) = (false, true);
        let won = self.busy.compare_exchange(free, taken, Ordering::SeqCst, Ordering::SeqCst);
        let _busy = match won {
            Ok(_) => Busy(self.busy),
            Err(_) => return refuse(&mut stream, "it has another run"),
        };
        match self.driver(&begin) {
            Ok((driver, bootstrap)) => self.run(stream, &begin, driver, bootstrap),
            Err(why) => refuse(&mut stream, &why),
        }
    }

    fn driver(&self, begin: &Begin) -> Result<(Driver, Vec<String>), String> {
        begin.check()?;
        let mut target = (self.target)()?;
        target.seed = begin.seed;
        target.members_per_connection = begin.members_per_connection;
        driver::ensure_descriptors(begin.connections as usize, target.cores.len())?;
        let bootstrap = target.bootstrap.clone();
        Ok((driver::start(target)?, bootstrap))
    }

    fn run(
        &self,
        stream: TcpStream,
        begin: &Begin,
        driver: Driver,
        bootstrap: Vec<String>,
    ) -> Result<(), String> {
        let ready = Ready {
            host: self.host.to_owned(),
            cores: driver.cores(),
            bootstrap,
            cluster: driver.cluster().clone(),
        };
        let reading = stream.try_clone().map_err(|error| error.to_string())?;
        let wire = Wire(Arc::new(Mutex::new(stream)));
        wire.send(&Answer::Ready(Box::new(ready)))?;
        let (orders, received) = bounded(ORDERS_MAX);
        let (clock, answering) = (driver.clock(), wire.clone());
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || listen(reading, &clock, &answering, &orders));
            let mut run = Run { begin, driver, groups: HashMap::new(), left: 0 };
            run.left = run.driver.cores();
            let ended = run.play(&received, &wire);
            drop((run, received));
            if ended.is_err() {
                wire.close();
            }
            // The reading thread ends when the other side has received everything and closes.
            let heard = reader.join().unwrap_or_else(|_| Err("the reading thread panicked".into()));
            ended.and_then(|whole| if whole { Ok(()) } else { heard })
        })
    }
}

fn begin(stream: &mut TcpStream) -> Result<Begin, FrameError> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    greeted(stream)?;
    greet(stream)?;
    match read(stream)? {
        Order::Begin(begin) => Ok(begin),
        _ => Err(FrameError::NoWorker),
    }
}

fn refuse(stream: &mut TcpStream, why: &str) -> Result<(), String> {
    write(stream, &Answer::Refused(why.to_owned())).map_err(|error| error.to_string())?;
    Err(format!("refused: {why}"))
}

/// The writing side of the connection, for reports, and for answers of the reading thread.
#[derive(Clone)]
struct Wire(Arc<Mutex<TcpStream>>);

impl Wire {
    fn send(&self, answer: &Answer) -> Result<(), String> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut *stream, answer).map_err(|error| error.to_string())
    }

    fn close(&self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A broken connection is closed already.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes orders on until the other side closes. Answers requests for the time at once.
fn listen(
    stream: TcpStream,
    clock: &Clock,
    wire: &Wire,
    orders: &Sender<Order>,
) -> Result<(), String> {
    let mut stream = BufReader::new(stream);
    loop {
        match read(&mut stream).map_err(|error| error.to_string())? {
            Order::Time { asked } => wire.send(&Answer::Time { asked, theirs: clock.now() })?,
            // If nothing receives orders, the run is over: only the connection's end is awaited.
            order => drop(orders.send(order)),
        }
    }
}

/// A run on this worker.
struct Run<'a> {
    begin: &'a Begin,
    driver: Driver,
    groups: HashMap<GroupIndex, Arc<GroupPlan>>,
    /// The number of cores that have not ended.
    left: usize,
}

impl Run<'_> {
    /// Returns true if all cores have ended, and false if the connection was closed before that.
    fn play(&mut self, orders: &Receiver<Order>, wire: &Wire) -> Result<bool, String> {
        while self.left > 0 {
            match orders.try_recv() {
                Ok(order) => self.obey(order)?,
                Err(TryRecvError::Empty) => self.report(wire)?,
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn report(&mut self, wire: &Wire) -> Result<(), String> {
        let Some(report) = self.driver.receive(TURN) else { return Ok(()) };
        self.left -= usize::from(report.ended.is_some());
        wire.send(&Answer::Report(Box::new(Report::of(report))))
    }

    fn obey(&mut self, order: Order) -> Result<(), String> {
        let (core, command) = match order {
            Order::Group(group) => {
                check_group(&group)?;
                self.groups.insert(group.index, Arc::new(group));
                return Ok(());
            }
            Order::Start { core, at, member } => {
                let group = self.groups.get(&member.group);
                let group = group.ok_or("a member of an unknown group was to start")?;
                let member = member.plan(Arc::clone(group), self.begin)?;
                (core, Command::Start { at, member })
            }
            Order::Stop { core, at, member, how } => {
                check_member(member, self.begin)?;
                (core, Command::Stop { at, member, how })
            }
            Order::Work { core, member, workload } => {
                check_member(member, self.begin)?;
                check_workload(&workload)?;
                (core, Command::Work { member, workload })
            }
            Order::Subscribe { core, at, member, group } => {
                check_member(member, self.begin)?;
                check_group(&group)?;
                (core, Command::Subscribe { at, member, group: Arc::from(group) })
            }
            Order::Topics { core, topics } => (core, Command::Topics(Topic::learned(topics)?)),
            Order::Task { core, id, task } => (core, Command::Task { id, task }),
            Order::End { core } => (core, Command::End),
            Order::Begin(_) | Order::Time { .. } => return Err("an order came too late".into()),
        };
        if core >= self.driver.cores() {
            return Err(format!("there is no core {core}"));
        }
        self.driver.send(core, command);
        Ok(())
    }
}
