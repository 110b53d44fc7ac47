//! `differential`: runs random histories on Apache Kafka and muster, and reports the differences.

#![forbid(unsafe_code)]

use clap::Parser;
use differential::generate::Choice;
use differential::history::{self, Plan};
use differential::known::{self, Known};
use differential::quotas;
use differential::recording::{self, Recorded};
use differential::report::Report;
use differential::wire::{Answer, Ask, Flaw, Side};
use muster_codec::messages::{
    ApiVersionsRequest, DeleteGroupsRequest, DescribeTransactionsRequest, FindCoordinatorRequest,
    InitProducerIdRequest, ReadShareGroupStateSummaryRequest, ReadStateSummaryPartition,
    ReadStateSummaryTopic,
};
use muster_codec::{ApiKey, ErrorCode, Uuid};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, thread};

/// Sends the same random requests to muster and to Apache Kafka, and compares the answers.
#[derive(Parser)]
struct Arguments {
    /// Address of Apache Kafka, started as `run` does.
    #[arg(long)]
    kafka: String,
    /// Address of muster, started as `run` does.
    #[arg(long)]
    muster: String,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of seeds.
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// The number of requests of each seed.
    #[arg(long, default_value_t = 60)]
    requests: usize,
    /// A number that is part of all names. Each run on the same servers needs another number. The
    /// default is the second of the day.
    #[arg(long)]
    run: Option<u64>,
    /// The number of seeds that run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Only these APIs, and requests that make state for them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Mostly transactional requests, each followed by requests that show its effects.
    #[arg(long, conflicts_with = "only")]
    transactions: bool,
    /// Also transactions that time out. A recording cannot contain these.
    #[arg(long, requires = "transactions", conflicts_with = "record")]
    timeouts: bool,
    /// Producers near their last epoch. This takes 32,760 more requests for each history.
    #[arg(long, requires = "transactions", conflicts_with = "record")]
    last_epochs: bool,
    /// Only compares clients with quotas of each kind: times and errors.
    #[arg(long, conflicts_with_all = ["only", "transactions", "secured", "record"])]
    quotas: bool,
    /// The addresses of Apache Kafka and muster at which users log in. The histories are then of
    /// users whose ACLs change.
    #[arg(long, num_args = 2, conflicts_with = "record")]
    secured: Vec<String>,
    /// Prints each request and both answers.
    #[arg(long)]
    trace: bool,
    /// Writes Kafka's part of the histories to this file.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Fails if a difference in the list does not occur.
    #[arg(long)]
    whole_list: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<bool> {
    if arguments.quotas {
        let run = arguments.run.unwrap_or_else(second);
        served(arguments)?;
        return quotas::compare(&arguments.kafka, &arguments.muster, run);
    }
    let mut known = Known::read(known::LIST).map_err(io::Error::other)?;
    if !arguments.secured.is_empty() {
        known.extend(Known::read(known::LIST_OF_ACLS).map_err(io::Error::other)?);
    }
    let only: Vec<ApiKey> =
        arguments.only.iter().map(|name| api(name)).collect::<Result<_, _>>()?;
    let served = served(arguments)?;
    let plan = Plan {
        kafka: &arguments.kafka,
        muster: &arguments.muster,
        run: arguments.run.unwrap_or_else(second),
        requests: arguments.requests,
        secured: <[&str; 2]>::try_from(
            arguments.secured.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .ok(),
        last_epochs: arguments.last_epochs,
        choice: Choice {
            transactions: arguments.transactions,
            timeouts: arguments.timeouts,
            only: &only,
            versions: &|api| served.get(&(api as i16)).cloned().unwrap_or_else(|| api.versions()),
        },
        known: &known,
        trace: arguments.trace,
    };
    let (report, histories) = run_seeds(arguments, &plan);
    if let Some(path) = &arguments.record {
        recording::write(path, &histories)?;
    }
    print!("{report}");
    let mut clean = report.is_clean();
    for (entry, count) in known.counts() {
        println!("argued: {} x {count}", entry.name);
        match &entry.rare {
            _ if count > 0 || !arguments.whole_list => {}
            Some(rare) => println!("  did not occur: {rare}"),
            None => {
                println!("  no longer occurs: take it out of known.toml");
                clean = false;
            }
        }
    }
    Ok(clean)
}

fn second() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() % 86_400)
}

fn api(name: &str) -> io::Result<ApiKey> {
    let found = ApiKey::ALL.iter().find(|api| api.name() == name).copied();
    found.ok_or_else(|| io::Error::other(format!("{name}: no API that muster serves")))
}

/// The versions that both servers support. First waits, on each, until it serves groups,
/// transactions, share state and producer ids.
fn served(arguments: &Arguments) -> io::Result<BTreeMap<i16, RangeInclusive<i16>>> {
    let kafka = announced(&arguments.kafka)?;
    let muster = announced(&arguments.muster)?;
    let both = |(key, range): (i16, RangeInclusive<i16>)| {
        let other = muster.get(&key)?;
        let (from, to) = (range.start().max(other.start()), range.end().min(other.end()));
        let first = ApiKey::from_key(key)?.versions();
        Some((key, *from.max(first.start())..=*to))
    };
    Ok(kafka.into_iter().filter_map(both).collect())
}

fn announced(address: &str) -> io::Result<BTreeMap<i16, RangeInclusive<i16>>> {
    let side = Side::new(address, 0);
    wait_for_coordinators(&side)?;
    let ask = Ask { version: 0, request: ApiVersionsRequest::default().into(), flaw: Flaw::None };
    let Answer::Body(body) = side.call(&ask)? else {
        return Err(io::Error::other(format!("{address} does not answer ApiVersions")));
    };
    let number = |value: &Value| value.as_i64().unwrap_or_default() as i16;
    let apis = body["ApiVersions"]["apiKeys"].as_array().cloned().unwrap_or_default();
    let range = |api: &Value| {
        (number(&api["apiKey"]), number(&api["minVersion"])..=number(&api["maxVersion"]))
    };
    Ok(apis.iter().map(range).collect())
}

/// Waits until all coordinators answer. Kafka creates the topics of groups, transactions and share
/// state at their first use, and then loads their partitions one after the other.
fn wait_for_coordinators(side: &Side) -> io::Result<()> {
    let names = || (0..500).map(|i| format!("none-{i}").into()).collect();
    let groups = DeleteGroupsRequest { groups_names: names() };
    let groups = Ask { version: 2, request: groups.into(), flaw: Flaw::None };
    let transactions = DescribeTransactionsRequest { transactional_ids: names() };
    let transactions = Ask { version: 0, request: transactions.into(), flaw: Flaw::None };
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        find_coordinators(side)?;
        if all_answer(side, &groups, ErrorCode::GroupIdNotFound)?
            && all_answer(side, &transactions, ErrorCode::TransactionalIdNotFound)?
            && has_share_state(side)?
            && has_producer_ids(side)?
        {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(io::Error::other("no coordinators after a minute"))
}

/// Looks up a coordinator of groups, one of transactions, and one of share state.
fn find_coordinators(side: &Side) -> io::Result<()> {
    let of_share_state = format!("first:{}:0", Uuid([1; 16]));
    for (key_type, key) in [(0, "first"), (1, "first"), (2, of_share_state.as_str())] {
        let coordinator_keys = vec![key.to_owned().into()];
        let request = FindCoordinatorRequest { key_type, coordinator_keys, ..Default::default() };
        side.call(&Ask { version: 6, request: request.into(), flaw: Flaw::None })?;
    }
    Ok(())
}

/// Whether the coordinators of share state answer. Many share partitions are named, so that each
/// coordinator has some. None of them exists.
fn has_share_state(side: &Side) -> io::Result<bool> {
    let partition = |partition| ReadStateSummaryPartition { partition, leader_epoch: -1 };
    let partitions = (0..500).map(partition).collect();
    let topics = vec![ReadStateSummaryTopic { topic_id: Uuid([1; 16]), partitions }];
    let request = ReadShareGroupStateSummaryRequest { group_id: "first".into(), topics };
    let ask = Ask { version: 0, request: request.into(), flaw: Flaw::None };
    let Answer::Body(body) = side.call(&ask)? else { return Ok(false) };
    let partitions = &body["ReadShareGroupStateSummary"]["results"][0]["partitions"];
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    Ok(partitions.as_array().is_some_and(|all| all.iter().all(|it| it["errorCode"] == unknown)))
}

/// Whether all elements of an answer's list have this error.
fn all_answer(side: &Side, ask: &Ask, error: ErrorCode) -> io::Result<bool> {
    let Answer::Body(body) = side.call(ask)? else { return Ok(false) };
    let body = &body[ask.api().name()];
    let lists = ["results", "transactionStates"].iter().filter_map(|list| body[*list].as_array());
    let mut elements = lists.flatten().peekable();
    Ok(elements.peek().is_some() && elements.all(|it| it["errorCode"] == error.code()))
}

/// Whether the server assigns producer ids. Kafka requests a block of ids when the first is needed.
fn has_producer_ids(side: &Side) -> io::Result<bool> {
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let ask = Ask { version: 1, request: request.into(), flaw: Flaw::None };
    Ok(matches!(side.call(&ask)?, Answer::Body(body) if body["InitProducerId"]["errorCode"] == 0))
}

fn run_seeds(arguments: &Arguments, plan: &Plan<'_>) -> (Report, Vec<Recorded>) {
    let next = AtomicU64::new(arguments.seed);
    let end = arguments.seed + arguments.seeds;
    let all = Mutex::new((Report::default(), Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            let mut report = Report::default();
            let recorded = history::run(plan, seed, &mut report);
            let Ok(mut all) = all.lock() else { break };
            match recorded {
                Ok(recorded) => all.1.push(recorded),
                Err(error) => report.broken.push(format!("seed {seed}: {error}")),
            }
            all.0.merge(report);
        }
    };
    thread::scope(|scope| (0..arguments.jobs).for_each(|_| drop(scope.spawn(work))));
    let (report, mut histories) = all.into_inner().unwrap_or_default();
    histories.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    (report, histories)
}
