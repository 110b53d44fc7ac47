//! Coverage marks with their counts. A simulator that never reaches a place proves nothing about
//! it.

use std::fmt;
use std::ops::AddAssign;

macro_rules! seen {
    ($($name:ident $text:literal,)+) => {
        /// A situation that some run has to reach.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Seen { $($name,)+ }

        impl Seen {
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The mark's name in a summary.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

seen! {
    Kill "kills",
    PowerLoss "power losses",
    CleanStop "clean stops",
    CrashInRecovery "crashes in recovery",
    CrashInCompaction "crashes in compaction",
    CrashInFlush "crashes in a flush",
    CrashInConversion "crashes between the operations of a conversion",
    CrashInReshard "crashes while logs are rewritten",
    CrashInSnapshot "crashes in a snapshot",
    LostWrite "lost writes",
    TornWrite "torn writes",
    DamagedWrite "damaged writes",
    MisdirectedWrite "misdirected writes",
    FileBack "removed files that came back",
    FileLost "new files that were lost",
    FullDisk "full disks",
    FailedWrite "failed writes (EIO)",
    NoSpaceWrite "failed writes (ENOSPC)",
    NoSpaceCompaction "compactions without space",
    NoSpaceSnapshot "snapshots without space",
    FailedRead "failed reads",
    SlowOperation "slow operations",
    OpenDeferred "opens that waited for files to close",
    SyncWaited "syncs that waited for writes",
    Recycled "segments recycled",
    Compacted "compacted segments",
    Snapshot "snapshots",
    SnapshotStart "starts from a snapshot",
    SnapshotRefused "snapshots of no use",
    SnapshotRotten "damaged snapshots",
    SnapshotFailed "ends for a damaged snapshot",
    ShardReloaded "shards loaded again",
    MailKept "shards loaded again for which messages waited",
    Resharded "changes of the number of shards",
    BlockSize "changes of the block size",
    EndsKnown "starts that knew where the logs end",
    DamageRefused "damaged logs that were refused",
    CutConnection "broken connections",
    HalfOpen "half-open connections",
    SlowReader "slow readers",
    SplitFrame "frames in pieces",
    TimedOut "requests timed out",
    Garbage "sends of garbage",
    Converted "conversions of groups",
    Committed "commits",
    OnQuorum "entries that a quorum of disks got",
    Led "elections of a leader that served",
    OffsetsExpired "offsets expired",
    TransactionCommitted "transactions committed",
    TransactionAborted "transactions aborted",
    TransactionsRead "looks at all committed records of an id",
    LateVerdict "verdicts that came after the marker of their transaction",
    ShareDelivered "records delivered by share groups",
    ShareRedelivered "records delivered again by share groups",
    ShareAccepted "records accepted",
    ShareReleased "records released",
    ShareRejected "records rejected",
    ShareRenewed "locks renewed",
    ShareUnknown "acknowledgements without an answer, or refused",
    ShareDrained "share groups that did all records",
    StreamsSettled "streams groups that settled with their tasks",
    StreamsHindered "streams groups whose topics left them without tasks",
    StreamsStandbys "standby tasks assigned",
    StreamsNoSource "statuses about missing source topics",
    StreamsWrongPartitions "statuses about wrong numbers of partitions",
    StreamsNoInternal "statuses about missing internal topics",
    StreamsDelayed "statuses about a delayed assignment",
    JoinedAnswer "answers joined of several slots",
    AclsCreated "creations of ACLs",
    AclsDeleted "deletions of ACLs",
    Granted "rights granted",
    Denied "rights denied",
    LateImage "users answered by a shard whose ACLs are not the newest",
    QuotasSet "quotas set",
    QuotasRemoved "quotas removed",
    Throttled "answers with a throttle time",
    ChangeRefused "changes of topics refused for a quota",
    ThrottledReload "throttled connections of shards that were loaded again",
    GroupDeleted "groups deleted",
    TopicCreated "topics created",
    TopicDeleted "topics deleted",
    DeletionDoneAgain "offsets of deleted topics looked for at a start",
    Joined "members joined",
    Rebalanced "assignments",
    Fenced "members fenced",
    MemberCrash "members crashed",
    OffsetsRead "reads of __consumer_offsets",
    LiveCompared "live states compared",
    LogChecked "groups that shards held against their logs",
    StartCompared "starts compared",
    MemoryMeasured "looks at memory",
    LogFull "looks at a full log",
    WaitedForLog "looks at connections that wait for the log",
    WaitedForTurn "connections that waited for their turn",
    LongRequest "slices of long requests",
    Paused "pauses of the process",
    Hung "hangs of the disk",
    TurnInHang "turns while the disk hung",
    LogFlipped "flipped bits of logs that were served",
    LogCut "files of logs that were cut while they were served",
    LogNameLost "files of logs that lost their name while they were served",
    FileNameLost "files of partitions that lost their name while they were served",
    DirectoryMoved "directories of partitions that were moved away while they were served",
    FileMissed "opens of files that had lost their name",
    NewSegmentLost "new segments of compaction that lost their name",
    LogRewritten "damaged logs that were rewritten",
    BatchFlipped "flipped bits of batches of user topics",
    BatchRefused "damaged batches that were refused",
    DiedWithDamage "ends of the process with a damaged log",
    ClockForward "wall clocks set forward",
    ClockBack "wall clocks set back",
    Crowd "crowds that settled",
    HalfRebalance "cooperative rebalances without a second half",
    ImageInWrite "images in writes",
    ImageWritten "images after writes",
    ImageSynced "images after syncs",
    ImageOfNames "images around changes of names and lengths",
    ImageInRecovery "images in recovery",
    ImageInCompaction "images in compaction",
    ImageInSnapshot "images in snapshots",
    ImageInReshard "images while logs are rewritten",
}

impl Seen {
    /// Whether only runs with crash images reach the mark. These marks are the last ones of the
    /// enum.
    pub fn is_of_images(self) -> bool {
        self as usize >= Self::ImageInWrite as usize
    }

    /// Whether only clusters reach the mark.
    pub fn is_of_clusters(self) -> bool {
        matches!(self, Self::OnQuorum | Self::Led)
    }

    /// Whether even 5,000 runs may miss the mark, because only one run in ten thousand reaches it.
    pub fn is_chance(self) -> bool {
        matches!(self, Self::HalfRebalance | Self::DiedWithDamage)
    }
}

/// The count of each mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage([u64; Seen::ALL.len()]);

impl Default for Coverage {
    fn default() -> Self {
        Self([0; Seen::ALL.len()])
    }
}

impl Coverage {
    pub fn saw(&mut self, what: Seen) {
        self.0[what as usize] += 1;
    }

    /// Adds `count` to a mark.
    pub fn add(&mut self, what: Seen, count: u64) {
        self.0[what as usize] += count;
    }

    pub fn count(&self, what: Seen) -> u64 {
        self.0[what as usize]
    }

    /// The marks that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = Seen> {
        Seen::ALL.iter().copied().filter(|what| self.count(*what) == 0)
    }
}

impl AddAssign<&Self> for Coverage {
    fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, what) in Seen::ALL.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", self.count(*what), what.text())?;
        }
        Ok(())
    }
}
