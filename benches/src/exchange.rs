//! One request and the answer it must get, encoded once and patched for each turn of the loop.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    GroupId, HeartbeatRequest, HeartbeatResponse, OffsetCommitRequest, OffsetCommitResponse,
};

use crate::setup::{Member, PARTITION, topic_name};
use crate::wire::{Result, error_name, request_frame, response_frame};

const HEARTBEAT_VERSION: i16 = 4;
const OFFSET_COMMIT_VERSION: i16 = 9;

/// Where the correlation id lies in a request: after length, API key and API version.
const REQUEST_CORRELATION_AT: usize = 8;
/// Where it lies in a response: after the length.
const RESPONSE_CORRELATION_AT: usize = 4;

/// A request frame and the response frame that it must get, byte for byte.
pub(crate) struct Exchange {
    request: Vec<u8>,
    response: Vec<u8>,
    response_correlation_at: usize,
    /// Of a commit: the group, and where the offset lies in the request.
    commit: Option<(GroupId, usize)>,
    /// Where the error code lies in the response, if there is one.
    error_at: Option<usize>,
    turn: u32,
}

impl Exchange {
    pub(crate) fn heartbeat(member: &Member) -> Result<Self> {
        let answer = |code| {
            let response = HeartbeatResponse::default().with_error_code(code);
            response_frame(HEARTBEAT_VERSION, &response)
        };
        Ok(Self {
            request: heartbeat_frame(member)?,
            response: answer(0)?,
            response_correlation_at: RESPONSE_CORRELATION_AT,
            commit: None,
            error_at: first_difference(&answer(0)?, &answer(-1)?),
            turn: 0,
        })
    }

    pub(crate) fn commit(member: &Member) -> Result<Self> {
        let offset_at = first_difference(&commit_frame(member, 0)?, &commit_frame(member, -1)?);
        Ok(Self {
            request: commit_frame(member, 0)?,
            response: commit_answer(0)?,
            response_correlation_at: RESPONSE_CORRELATION_AT,
            commit: offset_at.map(|at| (member.group.clone(), at)),
            error_at: first_difference(&commit_answer(0)?, &commit_answer(-1)?),
            turn: 0,
        })
    }

    /// The same bytes as a heartbeat, which are to come back.
    pub(crate) fn echo_heartbeat(member: &Member) -> Result<Self> {
        heartbeat_frame(member).map(Self::echo)
    }

    /// The same bytes as a commit, which are to come back.
    pub(crate) fn echo_commit(member: &Member) -> Result<Self> {
        commit_frame(member, 0).map(Self::echo)
    }

    fn echo(frame: Vec<u8>) -> Self {
        Self {
            response: frame.clone(),
            request: frame,
            response_correlation_at: REQUEST_CORRELATION_AT,
            commit: None,
            error_at: None,
            turn: 0,
        }
    }

    /// Moves to the next correlation id and offset, and returns the frame to send.
    pub(crate) fn next_request(&mut self) -> &[u8] {
        self.turn = self.turn.wrapping_add(1) & i32::MAX as u32;
        let id = self.turn.to_be_bytes();
        self.request[REQUEST_CORRELATION_AT..][..4].copy_from_slice(&id);
        self.response[self.response_correlation_at..][..4].copy_from_slice(&id);
        if let Some((_, at)) = self.commit {
            self.request[at..][..8].copy_from_slice(&i64::from(self.turn).to_be_bytes());
        }
        &self.request
    }

    /// Of a commit: the group, and the offset of the last request.
    pub(crate) fn committed(&self) -> Option<(&GroupId, i64)> {
        self.commit.as_ref().map(|(group, _)| (group, i64::from(self.turn)))
    }

    pub(crate) fn response_bytes(&self) -> usize {
        self.response.len()
    }

    /// Whether this is the answer: length, correlation id, error code and all else.
    pub(crate) fn is_answer(&self, frame: &[u8]) -> bool {
        frame == self.response
    }

    /// Says what is wrong with a frame that is not the answer.
    pub(crate) fn explain(&self, frame: &[u8]) -> String {
        let at = self.response_correlation_at;
        let error = self.error_at.and_then(|at| frame.get(at..at + 2));
        if frame.get(at..at + 4) != self.response.get(at..at + 4) {
            "an answer with another correlation id".into()
        } else if let (Some(&[high, low]), true) = (error, frame.len() == self.response.len()) {
            error_name(i16::from_be_bytes([high, low]))
        } else {
            format!("an answer of {} bytes instead of {}", frame.len(), self.response.len())
        }
    }
}

fn heartbeat_frame(member: &Member) -> Result<Vec<u8>> {
    let request = HeartbeatRequest::default()
        .with_group_id(member.group.clone())
        .with_generation_id(member.generation)
        .with_member_id(member.id.clone());
    request_frame(0, HEARTBEAT_VERSION, &request)
}

fn commit_frame(member: &Member, offset: i64) -> Result<Vec<u8>> {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(PARTITION)
        .with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name())
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(member.group.clone())
        .with_generation_id_or_member_epoch(member.generation)
        .with_member_id(member.id.clone())
        .with_topics(vec![topic]);
    request_frame(0, OFFSET_COMMIT_VERSION, &request)
}

fn commit_answer(code: i16) -> Result<Vec<u8>> {
    let partition = OffsetCommitResponsePartition::default()
        .with_partition_index(PARTITION)
        .with_error_code(code);
    let topic = OffsetCommitResponseTopic::default()
        .with_name(topic_name())
        .with_partitions(vec![partition]);
    let response = OffsetCommitResponse::default().with_topics(vec![topic]);
    response_frame(OFFSET_COMMIT_VERSION, &response)
}

/// Two frames that differ in one number show where it lies.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    one.iter().zip(other).position(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_answered_by_its_own_correlation_id_and_no_error() {
        let mut exchange = Exchange::heartbeat(&Member::made_up(0)).unwrap();
        exchange.next_request();
        let request = exchange.next_request();
        assert_eq!(request[8..12], [0, 0, 0, 2]);

        let answer = [0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(exchange.is_answer(&answer));

        let mut stale = answer;
        stale[7] = 1;
        assert!(!exchange.is_answer(&stale));
        assert!(exchange.explain(&stale).contains("correlation id"));

        let mut fenced = answer;
        fenced[14] = 25;
        assert!(!exchange.is_answer(&fenced));
        assert_eq!(exchange.explain(&fenced), "UnknownMemberId (25)");
        assert!(exchange.explain(&answer[..12]).contains("12 bytes"));
    }

    #[test]
    fn a_commit_carries_the_next_offset_each_time() {
        let member = Member::made_up(0);
        let mut exchange = Exchange::commit(&member).unwrap();
        exchange.next_request();
        let mut expected = commit_frame(&member, 2).unwrap();
        expected[11] = 2;
        assert_eq!(exchange.next_request(), expected);
        assert_eq!(exchange.committed(), Some((&member.group, 2)));

        let mut refused = commit_answer(3).unwrap();
        refused[7] = 2;
        assert_eq!(exchange.explain(&refused), "UnknownTopicOrPartition (3)");
    }

    #[test]
    fn an_echo_is_answered_by_itself() {
        let mut exchange = Exchange::echo_commit(&Member::made_up(7)).unwrap();
        let sent = exchange.next_request().to_vec();
        assert!(exchange.is_answer(&sent));
        exchange.next_request();
        assert!(!exchange.is_answer(&sent));
    }
}
