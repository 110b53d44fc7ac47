//! A client that commits offsets for a group of its own, reads them back, and deletes them. Each
//! commit sets the same offset for all its partitions. So the client notices an operation that took
//! effect only in part.

use super::{NextRequest, Surroundings};
use crate::random::Random;
use muster_codec::messages::{
    DeleteGroupsRequest, DescribedGroup, OffsetCommitRequest, OffsetCommitRequestPartition,
    OffsetCommitRequestTopic, OffsetCommitResponse, OffsetDeleteRequest,
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup,
};
use muster_codec::{ErrorCode, Request, Response};
use std::collections::BTreeSet;

/// The committed state: one offset for all partitions, or no offset.
type State = Option<i64>;

/// The last version that has the retention time of offsets.
const VERSION_WITH_RETENTION: i16 = 4;

/// The limit on the metadata of one commit. Longer metadata would not fit in the smallest logs.
const METADATA_BYTES_MAX: u64 = 40_000;

#[derive(Debug, Clone)]
pub(crate) struct Committer {
    group: String,
    /// The topics, each with its number of partitions.
    topics: Vec<(String, i32)>,
    next: i64,
    /// The states that the server may hold.
    possible: BTreeSet<State>,
    /// The possible states that may expire: they were committed with a retention time.
    expiring: BTreeSet<State>,
    /// How often a state has expired.
    expired: u64,
    /// Whether the server divides a deletion into several operations. Then a crash may leave only
    /// the first ones.
    deletes_in_parts: bool,
    doing: Doing,
    /// Whether the server may not know the topics yet.
    may_lack_topics: bool,
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    Nothing,
    Commit(i64),
    Fetch,
    DeleteOffsets,
    DeleteGroup,
}

/// Whether a request with this error had no effect and may be sent again, perhaps elsewhere.
fn is_passing(code: i16) -> bool {
    use ErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    let passing = [CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator];
    passing.into_iter().any(|error| error.code() == code)
}

impl Committer {
    pub(crate) fn new(group: String, topics: Vec<(String, i32)>, deletes_in_parts: bool) -> Self {
        Self {
            group,
            topics,
            next: 0,
            possible: [None].into(),
            expiring: BTreeSet::new(),
            expired: 0,
            deletes_in_parts,
            doing: Doing::Nothing,
            may_lack_topics: false,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// The number of times that the offsets had expired.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// This book, if the server ends now. Then the request under way may have taken effect, or not.
    pub(crate) fn interrupted(&self) -> Self {
        let mut book = self.clone();
        book.maybe(self.doing);
        book
    }

    /// Checks the states of the partitions that an answer shows.
    ///
    /// # Errors
    /// The states contradict earlier answers.
    pub(crate) fn check(&self, found: &[State]) -> Result<(), String> {
        let states: BTreeSet<State> = found.iter().copied().collect();
        let is_whole = found.len() as u64 == self.partitions();
        if !is_whole || !self.may_be_together(&states) {
            return Err(format!("{} is half there: {found:?}", self.group));
        }
        let may_be =
            |state: &State| self.possible.contains(state) || state.is_none() && self.may_be_gone();
        match states.iter().find(|state| !may_be(state)) {
            None => Ok(()),
            Some(state) => {
                Err(format!("{} has {state:?}, possible is {:?}", self.group, self.possible))
            }
        }
    }

    /// Whether the partitions may have these states at the same time. They must have the same one,
    /// unless a deletion has removed the offsets of only some partitions.
    fn may_be_together(&self, states: &BTreeSet<State>) -> bool {
        let is_cut = self.deletes_in_parts && states.len() == 2 && states.contains(&None);
        states.len() == 1 || is_cut
    }

    pub(super) fn may_be_gone(&self) -> bool {
        self.possible.contains(&None) || !self.possible.is_disjoint(&self.expiring)
    }

    /// Notes that the server has this state.
    fn learn(&mut self, state: State) {
        self.expired += u64::from(state.is_none() && !self.possible.contains(&None));
        self.possible = [state].into();
        self.expiring.retain(|expiring| *expiring == state);
    }

    /// The topics and partitions for which the client commits offsets, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&str, i32)> {
        self.topics
            .iter()
            .flat_map(|(name, partitions)| (0..*partitions).map(move |at| (name.as_str(), at)))
    }

    fn partitions(&self) -> u64 {
        self.topics.iter().map(|(_, partitions)| u64::from(partitions.unsigned_abs())).sum()
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        self.doing = match random.below(40) {
            0 => Doing::DeleteGroup,
            1 => Doing::DeleteOffsets,
            2..=9 => Doing::Fetch,
            _ => {
                self.next += 1;
                Doing::Commit(self.next)
            }
        };
        let (version, request) = match self.doing {
            Doing::Nothing | Doing::Fetch => self.fetch(random),
            Doing::Commit(offset) => self.commit(offset, random),
            Doing::DeleteOffsets => (0, self.delete_offsets()),
            Doing::DeleteGroup => {
                let groups_names = vec![self.group.clone().into()];
                let version = random.below(3) as i16;
                (version, DeleteGroupsRequest { groups_names }.into())
            }
        };
        self.may_lack_topics = around.brokers.may_lack_topics();
        let owner = around.brokers.group_shard(&self.group);
        let shard = if random.chance(0.02) { around.brokers.any(random) } else { owner };
        NextRequest { shard, version, request }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let doing = std::mem::replace(&mut self.doing, Doing::Nothing);
        let Some(response) = response else {
            self.maybe(doing);
            return Ok(());
        };
        match (doing, response) {
            (Doing::Commit(offset), Response::OffsetCommit(response)) => {
                self.committed(offset, response)
            }
            (Doing::Fetch, Response::OffsetFetch(response)) => self.fetched(response),
            (Doing::DeleteOffsets, Response::OffsetDelete(response)) => {
                self.offsets_deleted(response)
            }
            (Doing::DeleteGroup, Response::DeleteGroups(response)) => {
                let code = response.results.first().map_or(-1, |result| result.error_code);
                self.deleted(code)
            }
            _ => Err("an answer of another kind".to_owned()),
        }
    }

    /// Notes that a request may have taken effect, or not.
    fn maybe(&mut self, doing: Doing) {
        let _new = match doing {
            Doing::Nothing | Doing::Fetch => return,
            Doing::Commit(offset) => self.possible.insert(Some(offset)),
            Doing::DeleteOffsets | Doing::DeleteGroup => self.possible.insert(None),
        };
    }

    fn committed(
        &mut self,
        offset: i64,
        response: &OffsetCommitResponse<'_>,
    ) -> Result<(), String> {
        let codes = response.topics.iter().flat_map(|topic| &topic.partitions);
        match one_code(codes.map(|partition| partition.error_code))? {
            0 => self.learn(Some(offset)),
            code if is_passing(code) || self.lacks_topics(code) => {}
            code => return Err(format!("a commit is refused with {code}")),
        }
        Ok(())
    }

    fn lacks_topics(&self, code: i16) -> bool {
        self.may_lack_topics && code == ErrorCode::UnknownTopicOrPartition.code()
    }

    fn fetched(&mut self, response: &OffsetFetchResponse<'_>) -> Result<(), String> {
        if let Some(group) = response.groups.first() {
            return self.group_fetched(group);
        }
        let single = response.topics.iter().flat_map(|topic| &topic.partitions);
        let found = single.map(|at| (at.error_code, at.committed_offset)).collect();
        self.offsets_fetched(response.error_code, found)
    }

    /// Takes the group's part of the answer to a fetch.
    pub(super) fn group_fetched(
        &mut self,
        group: &OffsetFetchResponseGroup<'_>,
    ) -> Result<(), String> {
        let of_group = group.topics.iter().flat_map(|topic| &topic.partitions);
        let found = of_group.map(|at| (at.error_code, at.committed_offset)).collect();
        self.offsets_fetched(group.error_code, found)
    }

    fn offsets_fetched(&mut self, code: i16, found: Vec<(i16, i64)>) -> Result<(), String> {
        let code = found.iter().map(|(code, _)| *code).find(|code| *code != 0).unwrap_or(code);
        if is_passing(code) {
            return Ok(());
        }
        if code != 0 {
            return Err(format!("a fetch is refused with {code}"));
        }
        let states: Vec<State> =
            found.iter().map(|(_, offset)| Some(*offset).filter(|offset| *offset >= 0)).collect();
        self.check(&states)?;
        let first = states.first().copied().flatten();
        if states.iter().all(|state| *state == first) {
            self.learn(first);
        }
        Ok(())
    }

    fn offsets_deleted(&mut self, response: &OffsetDeleteResponse<'_>) -> Result<(), String> {
        if response.error_code != 0 {
            return self.deleted(response.error_code);
        }
        let codes = response.topics.iter().flat_map(|topic| &topic.partitions);
        match one_code(codes.map(|partition| partition.error_code))? {
            code if self.lacks_topics(code) => Ok(()),
            code => self.deleted(code),
        }
    }

    fn deleted(&mut self, code: i16) -> Result<(), String> {
        match code {
            0 => self.known_gone(),
            code if code == ErrorCode::GroupIdNotFound.code() => {
                if !self.may_be_gone() {
                    return Err("the group is not there".to_owned());
                }
                self.learn(None);
            }
            code if is_passing(code) => {}
            code => return Err(format!("a deletion is refused with {code}")),
        }
        Ok(())
    }

    /// Notes that a deletion of the group is about to be requested.
    pub(super) fn begin_deletion(&mut self) {
        self.doing = Doing::DeleteGroup;
    }

    /// Takes the group's part of the answer to a deletion.
    pub(super) fn group_deleted(&mut self, code: i16) -> Result<(), String> {
        self.doing = Doing::Nothing;
        self.deleted(code)
    }

    /// Takes the group's part of the answer to DescribeGroups: the group exists, unless it may have
    /// been deleted.
    pub(super) fn described(&self, group: &DescribedGroup<'_>) -> Result<(), String> {
        let code = group.error_code;
        let is_gone = code == ErrorCode::GroupIdNotFound.code() || group.group_state == "Dead";
        match code {
            _ if is_passing(code) => Ok(()),
            _ if is_gone && self.may_be_gone() => Ok(()),
            0 if group.group_state == "Empty" => Ok(()),
            _ => Err(format!("{} is described as {} with {code}", self.group, group.group_state)),
        }
    }

    fn known_gone(&mut self) {
        self.possible = [None].into();
        self.expiring.clear();
    }

    fn commit(&mut self, offset: i64, random: &mut Random) -> (i16, Request<'static>) {
        let expires = random.chance(0.05);
        let version = if expires { VERSION_WITH_RETENTION } else { random.between(2, 9) as i16 };
        if expires {
            self.expiring.insert(Some(offset));
        }
        let retention_time_ms = if expires { random.pick(&[1, 500]) } else { -1 };
        let len = random.skewed(0, 4_000.min(METADATA_BYTES_MAX / self.partitions())) as usize;
        let partition = |index| OffsetCommitRequestPartition {
            partition_index: index,
            committed_offset: offset,
            committed_metadata: Some("x".repeat(len).into()),
            ..Default::default()
        };
        let topic = |(name, partitions): &(String, i32)| OffsetCommitRequestTopic {
            name: name.clone().into(),
            partitions: (0..*partitions).map(partition).collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: self.group.clone().into(),
            topics: self.topics.iter().map(topic).collect(),
            retention_time_ms,
            ..Default::default()
        };
        (version, request.into())
    }

    fn fetch(&self, random: &mut Random) -> (i16, Request<'static>) {
        let version = random.between(1, 9) as i16;
        let group_id = self.group.clone();
        if version < 8 {
            let topic = |(name, partitions): &(String, i32)| OffsetFetchRequestTopic {
                name: name.clone().into(),
                partition_indexes: (0..*partitions).collect(),
            };
            let topics = Some(self.topics.iter().map(topic).collect());
            let request =
                OffsetFetchRequest { group_id: group_id.into(), topics, ..Default::default() };
            return (version, request.into());
        }
        let groups = vec![self.fetched_group()];
        (version, OffsetFetchRequest { groups, ..Default::default() }.into())
    }

    /// The group's part of a fetch.
    pub(super) fn fetched_group(&self) -> OffsetFetchRequestGroup<'static> {
        let topic = |(name, partitions): &(String, i32)| OffsetFetchRequestTopics {
            name: name.clone().into(),
            partition_indexes: (0..*partitions).collect(),
            ..Default::default()
        };
        OffsetFetchRequestGroup {
            group_id: self.group.clone().into(),
            topics: Some(self.topics.iter().map(topic).collect()),
            ..Default::default()
        }
    }

    fn delete_offsets(&self) -> Request<'static> {
        let partition = |partition_index| OffsetDeleteRequestPartition { partition_index };
        let topic = |(name, partitions): &(String, i32)| OffsetDeleteRequestTopic {
            name: name.clone().into(),
            partitions: (0..*partitions).map(partition).collect(),
        };
        let topics = self.topics.iter().map(topic).collect();
        OffsetDeleteRequest { group_id: self.group.clone().into(), topics }.into()
    }
}

/// The error code of all entries.
///
/// # Errors
/// The entries have different codes.
fn one_code(codes: impl Iterator<Item = i16>) -> Result<i16, String> {
    let codes: BTreeSet<i16> = codes.collect();
    match codes.len() {
        1 => Ok(codes.first().copied().unwrap_or(0)),
        _ => Err(format!("one operation has the outcomes {codes:?}")),
    }
}
