//! The profile of a run, drawn from the seed. So runs differ not only in the events, but in the
//! kinds of events that are possible ("swarm testing"). Times are microseconds.

use crate::disk::CrashFaults;
use crate::random::{Random, Salt};
use muster_server::placement::{OFFSETS_PARTITIONS, TRANSACTIONS_PARTITIONS};
use muster_server::shard::LogSizes;

pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000 * MS;

#[derive(Debug, Clone)]
pub(crate) struct Profile {
    pub(crate) shards: u32,
    /// Configs of the server, as `key=value`.
    pub(crate) configs: Vec<String>,
    pub(crate) offsets_partitions: u32,
    pub(crate) transactions_partitions: u32,
    pub(crate) sizes: LogSizes,
    pub(crate) block_bytes: u32,
    /// The number of files of partitions that a shard keeps open.
    pub(crate) partition_files: u32,
    /// The length of the phase with faults: a time, and a maximum number of steps.
    pub(crate) chaos: u64,
    pub(crate) chaos_steps: u64,
    pub(crate) disk: DiskProfile,
    pub(crate) network: NetworkProfile,
    pub(crate) faults: FaultProfile,
    pub(crate) clients: ClientProfile,
    /// The maximum delay from the arrival of an event at a shard to the turn that handles the
    /// event.
    pub(crate) turn_delay_max: u64,
    /// The probability that a verdict on a producer arrives after the marker of its transaction.
    pub(crate) late_verdict_chance: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct DiskProfile {
    pub(crate) delay_min: u64,
    pub(crate) delay_max: u64,
    /// The probability that an operation takes [`DiskProfile::slow`].
    pub(crate) slow_chance: f64,
    pub(crate) slow: u64,
    pub(crate) write_error_chance: f64,
    pub(crate) read_error_chance: f64,
    pub(crate) crash: CrashFaults,
}

#[derive(Debug, Clone)]
pub(crate) struct NetworkProfile {
    pub(crate) delay_min: u64,
    pub(crate) delay_max: u64,
    /// The probability that sent bytes are cut into pieces that arrive one by one.
    pub(crate) split_chance: f64,
    /// The probability that a request breaks its connection.
    pub(crate) cut_chance: f64,
    /// The probability that a client reads slowly.
    pub(crate) slow_reader_chance: f64,
    /// The probability that the server learns late that a client has closed its connection.
    pub(crate) half_open_chance: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct FaultProfile {
    /// The average time between two faults.
    pub(crate) every: u64,
    /// From here on: the weights of the kinds of faults.
    pub(crate) kill: u64,
    pub(crate) power_loss: u64,
    pub(crate) clean_stop: u64,
    pub(crate) disk_full: u64,
    /// The process is paused for a while.
    pub(crate) pause: u64,
    /// The wall clock is set to another time.
    pub(crate) clock: u64,
    /// A shard fails, and is loaded again.
    pub(crate) failed_shard: u64,
    /// The disk ends no operation for a while.
    pub(crate) hang: u64,
    /// This and the next fields are probabilities. A snapshot has flipped bits when the server
    /// starts.
    pub(crate) rotten_snapshot_chance: f64,
    /// A crash follows very soon after startup.
    pub(crate) crash_in_start_chance: f64,
    /// The server crashes after it has written a block of its log, before it writes the next block.
    pub(crate) crash_between_blocks_chance: f64,
    /// The server starts with another number of shards.
    pub(crate) reshard_chance: f64,
    /// The device has another block size when the server starts.
    pub(crate) block_size_chance: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct ClientProfile {
    pub(crate) groups: u32,
    pub(crate) members: u32,
    pub(crate) committers: u32,
    /// Clients with several groups.
    pub(crate) several: u32,
    /// Clients with a group that is converted between the protocols.
    pub(crate) converters: u32,
    pub(crate) admins: u32,
    /// Clients that read `__consumer_offsets`.
    pub(crate) readers: u32,
    /// Clients that write to user topics.
    pub(crate) producers: u32,
    /// Clients with transactions; two share a transactional id.
    pub(crate) transactors: u32,
    /// Clients with principals. Without them there is no authorizer.
    pub(crate) users: u32,
    /// Clients that change the quotas of others: none or one.
    pub(crate) limiters: u32,
    /// Consumers of share groups.
    pub(crate) sharers: u32,
    /// Clients that change the topics of streams groups.
    pub(crate) meddlers: u32,
    pub(crate) hostile: u32,
    /// The average time between two starts or stops of members.
    pub(crate) churn_every: u64,
    pub(crate) session_timeout: u64,
    pub(crate) heartbeat_interval: u64,
    pub(crate) rebalance_timeout: u64,
    pub(crate) request_timeout: u64,
    /// The longest pause of a raw client between two requests.
    pub(crate) pause_max: u64,
}

impl Profile {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed, Salt::Profile);
        let length = length(seed, random);
        Self::draw(random, length)
    }

    /// Clients for a real server: the clients of the same seed, except those that take too long in
    /// real time or cannot be judged from outside the server.
    pub(crate) fn for_loopback(seed: u64) -> Self {
        let random = &mut Random::new(seed, Salt::Profile);
        // The same numbers are drawn as for a simulated node, so that the rest is the same.
        let _simulated = length(seed, random);
        let mut profile = Self::draw(random, LOOPBACK);
        // Only the image on which a shard decided shows whether the decision was correct.
        (profile.clients.users, profile.clients.limiters) = (0, 0);
        // On a busy machine mail between shards is late, and so are requests.
        profile.turn_delay_max = profile.turn_delay_max.max(25 * MS);
        profile.clients.request_timeout = 3 * SECOND;
        (profile.disk.slow, profile.sizes) = (0, LogSizes::default());
        // An empty group must not be deleted during the run: clients could not see this, and the
        // epochs of a new group with its name would begin again.
        let checks = "offsets.retention.check.interval.ms=";
        profile.configs.retain(|config| !config.starts_with(checks));
        profile.configs.extend([format!("{checks}3600000"), SEGMENTS.to_owned()]);
        profile
    }

    /// A cluster of three nodes. Kills are the only faults, and clients are limited to what a
    /// cluster can do yet.
    pub(crate) fn for_cluster(seed: u64) -> Self {
        let random = &mut Random::new(seed, Salt::Profile);
        let mut profile = Self::draw(random, SHORT);
        profile.clients = ClientProfile {
            admins: 0,
            readers: 0,
            producers: 0,
            transactors: 0,
            users: 0,
            limiters: 0,
            sharers: 0,
            meddlers: 0,
            hostile: 0,
            several: 0,
            converters: 0,
            ..profile.clients
        };
        let disk = &mut profile.disk;
        (disk.write_error_chance, disk.read_error_chance) = (0.0, 0.0);
        disk.crash.misdirected = 0.0;
        profile
    }

    fn draw(random: &mut Random, length: Length) -> Self {
        let clients = clients(random, length);
        let partitions = [1, 3, 8, 50];
        let offsets_partitions = random.pick(&partitions);
        let transactions_partitions = random.pick(&partitions);
        let many = clients.members > 60;
        let sizes = if many { LARGE } else { random.pick(&[SMALL, MEDIUM]) };
        let sizes = LogSizes { cut_bytes: random.pick(&CUTS), ..sizes };
        let mut profile = Self {
            shards: random.pick(&[1, 1, 2, 3]),
            configs: configs(random, &clients, offsets_partitions, transactions_partitions),
            offsets_partitions,
            transactions_partitions,
            sizes,
            block_bytes: random.pick(&[512, 4096]),
            partition_files: 0,
            chaos: random.between(length.chaos / 4, length.chaos),
            chaos_steps: random.between(length.steps / 4, length.steps),
            disk: disk(random),
            network: network(random),
            faults: faults(random, length),
            clients,
            turn_delay_max: random.pick(&[20, 200, 5 * MS]),
            late_verdict_chance: 0.0,
        };
        profile.restrict(random);
        profile.late_verdict_chance = random.pick(&[0.0, 0.1, 0.5]);
        profile.clients.limiters = random.pick(&[0, 1]);
        profile.share(random, length);
        profile.stream(random);
        profile.partition_files = random.pick(&PARTITION_FILES);
        profile
    }

    /// Draws the number of users. Half of all runs have users and thus an authorizer; all other
    /// clients are then super users.
    fn restrict(&mut self, random: &mut Random) {
        self.clients.users = random.pick(&[0, 0, 2, 4]);
        if self.clients.users > 0 {
            let pairs = [
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users=User:ANONYMOUS",
            ];
            self.configs.extend(pairs.map(str::to_owned));
        }
    }

    /// Draws the number of consumers of share groups, which consume what transactors produce, and
    /// the configs of share groups.
    fn share(&mut self, random: &mut Random, length: Length) {
        let clients = &mut self.clients;
        if clients.transactors > 0 {
            clients.sharers = random.pick(&[0, 1, 3, 6]);
        }
        let (session, heartbeat) = (clients.session_timeout / MS, clients.heartbeat_interval / MS);
        let pairs = [
            ("group.share.min.session.timeout.ms", 1_000),
            ("group.share.session.timeout.ms", session),
            ("group.share.min.heartbeat.interval.ms", 100),
            ("group.share.heartbeat.interval.ms", heartbeat),
            ("group.share.assignment.interval.ms", random.pick(&[0, 1_000])),
            ("group.share.min.record.lock.duration.ms", 1_000),
            ("group.share.record.lock.duration.ms", random.pick(&length.locks_ms)),
            ("group.share.delivery.count.limit", random.pick(&[2, 5, 10])),
            ("group.share.min.partition.max.record.locks", 100),
            ("group.share.partition.max.record.locks", random.pick(&[100, 2_000])),
            ("share.coordinator.snapshot.update.records.per.snapshot", random.pick(&[1, 5, 500])),
        ];
        self.configs.extend(pairs.map(|(key, value)| format!("{key}={value}")));
    }

    /// Draws the configs of streams groups, and whether a client creates, extends and deletes their
    /// topics: in half of all runs.
    fn stream(&mut self, random: &mut Random) {
        let clients = &mut self.clients;
        clients.meddlers = random.pick(&[0, 1]);
        let (session, heartbeat) = (clients.session_timeout / MS, clients.heartbeat_interval / MS);
        let pairs = [
            ("group.streams.min.session.timeout.ms", 1_000),
            ("group.streams.session.timeout.ms", session),
            ("group.streams.min.heartbeat.interval.ms", 100),
            ("group.streams.heartbeat.interval.ms", heartbeat),
            ("group.streams.assignment.interval.ms", random.pick(&[0, 1_000])),
            ("group.streams.initial.rebalance.delay.ms", random.pick(&[0, 100, 3_000])),
            ("group.streams.num.standby.replicas", random.pick(&[0, 1, 2])),
        ];
        self.configs.extend(pairs.map(|(key, value)| format!("{key}={value}")));
    }

    /// Whether there are thousands of members.
    pub(crate) fn is_crowd(&self) -> bool {
        self.clients.members >= CROWD.members[0]
    }

    /// The time within which all groups have to settle once there are no faults. Members may wait
    /// for several timeouts one after the other: so it is a multiple of their sum, plus a minute.
    pub(crate) fn patience(&self) -> u64 {
        let ClientProfile { session_timeout, rebalance_timeout, request_timeout, .. } =
            self.clients;
        8 * (session_timeout + rebalance_timeout + request_timeout) + 60 * SECOND
    }
}

/// A shard of a run may keep one of these numbers of partition files open. Production allows at
/// least 8. If only 2 may be open, even a small answer needs more files at once.
const PARTITION_FILES: [u32; 3] = [2, 8, 16];

/// Segments that are a little longer than the longest block.
const SMALL: LogSizes = LogSizes {
    segment_bytes: Some(128 << 10),
    operation_bytes_max: 64 << 10,
    open_bytes_max: 32 << 10,
    cut_bytes: None,
};
const MEDIUM: LogSizes = LogSizes {
    segment_bytes: Some(512 << 10),
    operation_bytes_max: 256 << 10,
    open_bytes_max: 64 << 10,
    cut_bytes: None,
};
const LARGE: LogSizes = LogSizes {
    segment_bytes: Some(4 << 20),
    operation_bytes_max: 2 << 20,
    open_bytes_max: 1 << 20,
    cut_bytes: None,
};

/// Each run draws one of these sizes, above which the records of one request become several
/// operations. None: only large groups need several.
const CUTS: [Option<usize>; 3] = [None, Some(0), Some(400)];

/// The length of a run. Most runs are short: most violations occur early, and more seeds find more
/// of them.
#[derive(Debug, Clone, Copy)]
struct Length {
    chaos: u64,
    steps: u64,
    /// The factor of all timeouts of clients.
    timeouts: u64,
    sessions: [u64; 3],
    /// How long consumers of share groups hold locks on records.
    locks_ms: [u64; 3],
    members: [u32; 4],
}

const SHORT: Length = Length {
    chaos: 20 * SECOND,
    steps: 5_000,
    timeouts: 1,
    sessions: [SECOND, 2 * SECOND, 5 * SECOND],
    locks_ms: [1_000, 3_000, 10_000],
    members: [0, 2, 4, 8],
};
const LONG: Length =
    Length { chaos: 60 * SECOND, steps: 100_000, timeouts: 6, members: [0, 4, 12, 30], ..SHORT };
const MANY: Length = Length {
    chaos: 60 * SECOND,
    steps: 300_000,
    timeouts: 6,
    members: [60, 100, 200, 300],
    ..SHORT
};
const CROWD: Length = Length {
    chaos: 15 * SECOND,
    steps: 100_000,
    timeouts: 6,
    members: [1_500, 1_500, 2_000, 3_000],
    ..SHORT
};

/// In real time a run has to wait for timeouts until it settles. With longer timeouts it would wait
/// longer, but its clients would not do more.
const LOOPBACK: Length = Length {
    chaos: 8 * SECOND,
    sessions: [SECOND, SECOND, 2 * SECOND],
    locks_ms: [1_000, 1_000, 2_000],
    ..SHORT
};

/// Segments of a shard's log, small enough that a run fills some of them.
const SEGMENTS: &str = "offsets.topic.segment.bytes=1048576";

/// One in this number of seeds has a crowd. Such a run takes seconds; other runs take hundredths of
/// a second.
const CROWD_EVERY: u64 = 1_000;

fn length(seed: u64, random: &mut Random) -> Length {
    match random.below(1_000) {
        _ if seed % CROWD_EVERY == CROWD_EVERY / 2 => CROWD,
        0 => MANY,
        1..=20 => LONG,
        _ => SHORT,
    }
}

fn clients(random: &mut Random, length: Length) -> ClientProfile {
    let session_timeout = length.timeouts * random.pick(&length.sessions);
    let heartbeat_interval = session_timeout / random.between(3, 6);
    ClientProfile {
        groups: random.between(1, 5) as u32,
        members: random.pick(&length.members),
        committers: random.between(1, 4) as u32,
        admins: random.between(0, 2) as u32,
        readers: random.between(0, 2) as u32,
        producers: random.between(0, 3) as u32,
        transactors: random.pick(&[0, 1, 2, 4]),
        users: 0,
        limiters: 0,
        sharers: 0,
        meddlers: 0,
        hostile: random.pick(&[0, 0, 2]),
        several: random.pick(&[0, 1, 1]),
        converters: random.pick(&[0, 1]),
        churn_every: random.pick(&[100 * MS, SECOND, 10 * SECOND]),
        session_timeout,
        heartbeat_interval,
        // Members of classic groups learn of a rebalance from the answer to their next heartbeat.
        // If a crash prevents this answer, the member may send its next heartbeat as late as its
        // session timeout allows. So the rebalance timeout has to be longer than that.
        rebalance_timeout: session_timeout
            + 2 * heartbeat_interval
            + length.timeouts * random.pick(&[SECOND, 3 * SECOND]),
        request_timeout: length.timeouts * random.pick(&[SECOND, 3 * SECOND]),
        pause_max: random.pick(&[MS, 20 * MS, 500 * MS]),
    }
}

fn configs(
    random: &mut Random,
    clients: &ClientProfile,
    offsets_partitions: u32,
    transactions_partitions: u32,
) -> Vec<String> {
    let session = clients.session_timeout / MS;
    let heartbeat = clients.heartbeat_interval / MS;
    let linger = random.pick(&["-1", "-1", "0", "5", "40"]);
    let delay = random.pick(&[0, 100, 3_000]);
    let interval = random.pick(&[0, 1_000]);
    let connections_idle = random.pick(&[600_000, 20_000]);
    let dirty_ratio = random.pick(&["0.5", "0.1", "0"]);
    let delete_retention = random.pick(&[0, 1_000, 86_400_000]);
    let snapshots = random.pick(&["2000", "20000", "20971520"]);
    let flush_messages = random.pick(&["1", "3", "9223372036854775807"]);
    let pairs = [
        ("metadata.log.max.record.bytes.between.snapshots", snapshots.to_owned()),
        ("log.cleaner.min.cleanable.ratio", dirty_ratio.to_owned()),
        ("log.cleaner.delete.retention.ms", delete_retention.to_string()),
        ("log.cleaner.backoff.ms", "100".to_owned()),
        ("offsets.retention.check.interval.ms", "1000".to_owned()),
        ("group.consumer.min.session.timeout.ms", "1000".to_owned()),
        ("group.consumer.session.timeout.ms", session.to_string()),
        ("group.consumer.min.heartbeat.interval.ms", "100".to_owned()),
        ("group.consumer.heartbeat.interval.ms", heartbeat.to_string()),
        ("group.consumer.assignment.interval.ms", interval.to_string()),
        ("group.min.session.timeout.ms", "1000".to_owned()),
        ("group.initial.rebalance.delay.ms", delay.to_string()),
        ("group.coordinator.append.linger.ms", linger.to_owned()),
        (OFFSETS_PARTITIONS, offsets_partitions.to_string()),
        (TRANSACTIONS_PARTITIONS, transactions_partitions.to_string()),
        ("connections.max.idle.ms", connections_idle.to_string()),
        ("auto.create.topics.enable", "false".to_owned()),
        ("log.flush.interval.messages", flush_messages.to_owned()),
    ];
    pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn disk(random: &mut Random) -> DiskProfile {
    let errors = random.chance(0.3);
    let worse = random.chance(0.2);
    DiskProfile {
        delay_min: 30,
        delay_max: random.pick(&[300, 5 * MS, 100 * MS]),
        slow_chance: random.pick(&[0.0, 0.001, 0.02]),
        slow: random.pick(&[100 * MS, 3 * SECOND]),
        write_error_chance: if errors { 0.002 } else { 0.0 },
        read_error_chance: if errors { 0.01 } else { 0.0 },
        crash: CrashFaults {
            torn: random.pick(&[0.1, 0.5, 0.9]),
            damaged: random.pick(&[0.0, 0.1]),
            misdirected: if worse { 0.1 } else { 0.0 },
            direct: random.chance(0.5),
        },
    }
}

fn network(random: &mut Random) -> NetworkProfile {
    NetworkProfile {
        delay_min: 20,
        delay_max: random.pick(&[200, 10 * MS, 500 * MS]),
        split_chance: random.pick(&[0.0, 0.1, 0.5]),
        cut_chance: random.pick(&[0.0, 0.001, 0.02]),
        slow_reader_chance: random.pick(&[0.0, 0.0, 0.05]),
        half_open_chance: random.pick(&[0.0, 0.3]),
    }
}

fn faults(random: &mut Random, length: Length) -> FaultProfile {
    FaultProfile {
        every: length.timeouts * random.pick(&[200 * MS, SECOND, 3 * SECOND]),
        kill: random.between(0, 3),
        power_loss: random.between(1, 4),
        clean_stop: random.between(0, 2),
        disk_full: random.below(2),
        pause: random.below(2),
        clock: random.below(2),
        failed_shard: random.below(3),
        rotten_snapshot_chance: random.pick(&[0.0, 0.2]),
        crash_in_start_chance: random.pick(&[0.0, 0.3]),
        crash_between_blocks_chance: random.pick(&[0.0, 0.01, 0.05]),
        reshard_chance: random.pick(&[0.0, 0.0, 0.3]),
        block_size_chance: random.pick(&[0.0, 0.0, 0.2]),
        hang: random.below(2),
    }
}
