//! Kafka keeps a copy of a streams group's last target. It becomes wrong when Kafka refuses a
//! client that uses a static member's instance id, or removes a member, which may join again.

use crate::outcome::{Outcome, kafka_records};
use crate::scope::group_of;
use crate::transcript::Line;
use serde_json::Value;
use std::collections::BTreeSet;

/// UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID
const REFUSED: [i64; 2] = [111, 82];

/// The groups in which Kafka's copy may be wrong, since the last load.
#[derive(Debug, Default)]
pub struct Rivals {
    /// The groups in which a client was refused.
    groups: BTreeSet<String>,
    /// Members that were removed, each with its group first.
    removed: BTreeSet<(String, String)>,
}

impl Rivals {
    pub fn observe(&mut self, line: &Line) {
        if line.input["op"] == "reload" {
            *self = Self::default();
        }
        let code = line.output["response"]["errorCode"].as_i64();
        let group = line.input["body"]["groupId"].as_str();
        if line.input["api"] == "StreamsGroupHeartbeat"
            && code.is_some_and(|code| REFUSED.contains(&code))
        {
            self.groups.extend(group.map(str::to_owned));
        }
        let is_gone = |record: &&Value| {
            record["type"] == "STREAMS_GROUP_MEMBER_METADATA" && record["value"].is_null()
        };
        self.removed.extend(kafka_records(line).filter(is_gone).map(|record| {
            let member_id = record["key"]["data"]["memberId"].as_str().unwrap_or_default();
            (group_of(record).to_owned(), member_id.to_owned())
        }));
    }

    /// The group of a heartbeat, if its records differ and Kafka's copy of the target may be wrong.
    pub fn differing<'l>(
        &self,
        line: &'l Line,
        kafka: &Outcome,
        muster: &Outcome,
    ) -> Option<&'l str> {
        let group = line.input["body"]["groupId"].as_str()?;
        let of = |outcome: &'_ Outcome| -> Vec<_> {
            let of_group = outcome.records.iter().filter(|((_, of), _)| of == group);
            of_group.flat_map(|(_, records)| records.clone()).collect()
        };
        let beats = line.input["api"] == "StreamsGroupHeartbeat";
        let member = line.input["body"]["memberId"].as_str()?;
        let has_left = || self.removed.contains(&(group.to_owned(), member.to_owned()));
        let differs = || of(kafka) != of(muster);
        (beats && (self.groups.contains(group) || has_left()) && differs()).then_some(group)
    }
}
