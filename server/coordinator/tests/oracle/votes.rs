//! The assignors for which the members of consumer groups vote, according to Kafka's log.

use crate::outcome::{Outcome, kafka_records};
use crate::scope::group_of;
use crate::transcript::Line;
use serde_json::Value;
use std::collections::BTreeMap;

/// The preferred assignor of each member that names one, by group.
#[derive(Debug, Default)]
pub struct Votes(BTreeMap<String, BTreeMap<String, String>>);

impl Votes {
    pub fn observe(&mut self, line: &Line) {
        let is_member = |record: &&Value| record["type"] == "CONSUMER_GROUP_MEMBER_METADATA";
        for record in kafka_records(line).filter(is_member) {
            let members = self.0.entry(group_of(record).to_owned()).or_default();
            let member_id = record["key"]["data"]["memberId"].as_str().unwrap_or_default();
            match record["value"]["data"]["serverAssignor"].as_str() {
                Some(assignor) => members.insert(member_id.to_owned(), assignor.to_owned()),
                None => members.remove(member_id),
            };
        }
    }

    /// The group of a heartbeat, if Kafka raises its epoch more often than muster: one member names
    /// `range` and sends the heartbeat, and one other member names `uniform`.
    pub fn tied<'l>(&self, line: &'l Line, kafka: &Outcome, muster: &Outcome) -> Option<&'l str> {
        let body = &line.input["body"];
        let group = body["groupId"].as_str()?;
        let named: Vec<_> = self.0.get(group)?.iter().collect();
        let of = |name| named.iter().filter(|(_, assignor)| **assignor == name).count();
        let own = named.iter().find(|(member, _)| body["memberId"] == ***member)?.1;
        let is_tied = own == "range" && of("range") == 1 && of("uniform") == 1;
        let raises = |outcome: &Outcome| {
            let records = outcome.records.iter().filter(|((_, of), _)| of == group);
            let records = records.flat_map(|(_, all)| all);
            records.filter(|it| it["type"] == "CONSUMER_GROUP_METADATA").count()
        };
        let beats = line.input["api"] == "ConsumerGroupHeartbeat";
        (beats && is_tied && raises(kafka) > raises(muster)).then_some(group)
    }
}
