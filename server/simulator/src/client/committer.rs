//! A client that commits offsets for a group of its own, reads them back, and deletes them. Each of
//! its commits is for all its partitions with one offset, so that half an operation shows.

use super::{Surroundings, Wish};
use crate::random::Random;
use muster_codec::messages::{
    DeleteGroupsRequest, OffsetCommitRequest, OffsetCommitRequestPartition,
    OffsetCommitRequestTopic, OffsetCommitResponse, OffsetDeleteRequest,
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};
use muster_codec::{ErrorCode, Request, Response};
use std::collections::BTreeSet;

/// What is committed: an offset, for all partitions, or none.
type State = Option<i64>;

/// The last that tells how long offsets are kept.
const VERSION_WITH_RETENTION: i16 = 4;

/// In all the metadata of one commit: with more the smallest logs could not take it.
const METADATA_BYTES_MAX: u64 = 40_000;

#[derive(Debug, Clone)]
pub(crate) struct Committer {
    group: String,
    /// Topics with their numbers of partitions.
    topics: Vec<(String, i32)>,
    next: i64,
    /// What the server may hold.
    possible: BTreeSet<State>,
    /// What of that may go by itself, for it was committed with a retention time.
    expiring: BTreeSet<State>,
    /// How often something did.
    expired: u64,
    doing: Doing,
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    Nothing,
    Commit(i64),
    Fetch,
    DeleteOffsets,
    DeleteGroup,
}

/// Whether an error says that nothing was done: ask again, perhaps elsewhere.
fn is_passing(code: i16) -> bool {
    use ErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    let passing = [CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator];
    passing.into_iter().any(|error| error.code() == code)
}

impl Committer {
    pub(crate) fn new(number: u32, topics: Vec<(String, i32)>) -> Self {
        Self {
            group: format!("committer-{number}"),
            topics,
            next: 0,
            possible: [None].into(),
            expiring: BTreeSet::new(),
            expired: 0,
            doing: Doing::Nothing,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// How often an offset was gone by itself.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// The book if the server ended now: what is under way may have taken effect or not.
    pub(crate) fn interrupted(&self) -> Self {
        let mut book = self.clone();
        book.maybe(self.doing);
        book
    }

    /// What came to be: all partitions have this.
    ///
    /// # Errors
    /// That cannot be.
    pub(crate) fn check(&self, found: &[State]) -> Result<(), String> {
        let first = found.first().copied().flatten();
        let is_whole = found.len() as u64 == self.partitions();
        if found.iter().any(|state| *state != first) || !is_whole {
            return Err(format!("{} is half there: {found:?}", self.group));
        }
        match self.possible.contains(&first) || first.is_none() && self.may_be_gone() {
            true => Ok(()),
            false => Err(format!("{} has {first:?}, possible is {:?}", self.group, self.possible)),
        }
    }

    fn may_be_gone(&self) -> bool {
        self.possible.contains(&None) || !self.possible.is_disjoint(&self.expiring)
    }

    /// It is known what the server holds.
    fn learn(&mut self, state: State) {
        self.expired += u64::from(state.is_none() && !self.possible.contains(&None));
        self.possible = [state].into();
        self.expiring.retain(|expiring| *expiring == state);
    }

    /// The places that it commits to, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&str, i32)> {
        self.topics
            .iter()
            .flat_map(|(name, partitions)| (0..*partitions).map(move |at| (name.as_str(), at)))
    }

    fn partitions(&self) -> u64 {
        self.topics.iter().map(|(_, partitions)| u64::from(partitions.unsigned_abs())).sum()
    }

    pub(super) fn wish(&mut self, around: &mut Surroundings<'_>) -> Wish {
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
        let owner = around.placement.group_shard(&self.group);
        let shard = match random.chance(0.02) {
            true => random.below(u64::from(around.placement.shards)) as u32,
            false => owner,
        };
        Wish { shard, version, request }
    }

    pub(super) fn heard(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
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

    /// It may have taken effect or not.
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
            code if is_passing(code) => {}
            code => return Err(format!("a commit is refused with {code}")),
        }
        Ok(())
    }

    fn fetched(&mut self, response: &OffsetFetchResponse<'_>) -> Result<(), String> {
        let group = response.groups.first();
        let code = group.map_or(response.error_code, |group| group.error_code);
        let of_group = group.iter().flat_map(|group| &group.topics);
        let of_group = of_group.flat_map(|topic| &topic.partitions);
        let grouped = of_group.map(|at| (at.error_code, at.committed_offset));
        let single = response.topics.iter().flat_map(|topic| &topic.partitions);
        let single = single.map(|at| (at.error_code, at.committed_offset));
        let found: Vec<_> = grouped.chain(single).collect();
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
        self.learn(states.first().copied().flatten());
        Ok(())
    }

    fn offsets_deleted(&mut self, response: &OffsetDeleteResponse<'_>) -> Result<(), String> {
        if response.error_code != 0 {
            return self.deleted(response.error_code);
        }
        let codes = response.topics.iter().flat_map(|topic| &topic.partitions);
        let code = one_code(codes.map(|partition| partition.error_code))?;
        self.deleted(code)
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
        let topic = |(name, partitions): &(String, i32)| OffsetFetchRequestTopics {
            name: name.clone().into(),
            partition_indexes: (0..*partitions).collect(),
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: group_id.into(),
            topics: Some(self.topics.iter().map(topic).collect()),
            ..Default::default()
        };
        (version, OffsetFetchRequest { groups: vec![group], ..Default::default() }.into())
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

/// The error code that all have.
fn one_code(codes: impl Iterator<Item = i16>) -> Result<i16, String> {
    let codes: BTreeSet<i16> = codes.collect();
    match codes.len() {
        1 => Ok(codes.first().copied().unwrap_or(0)),
        _ => Err(format!("one operation has the outcomes {codes:?}")),
    }
}
