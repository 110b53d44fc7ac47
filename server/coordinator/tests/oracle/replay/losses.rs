//! The groups that leave the comparison because of an intended difference.

use super::{Replay, Subject, uncommitted};
use crate::muster::Muster;
use crate::outcome::{Outcome, kafka_records};
use crate::placement;
use crate::scope::group_of;
use crate::transcript::Line;
use muster_codec::ApiKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// UNKNOWN_SERVER_ERROR
const UNKNOWN: i64 = -1;

impl Replay {
    /// Leaves out the groups of a request whose outcome depends on Kafka's plugin for descriptions.
    pub(super) fn lose_to_plugin(&mut self, line: &Line, subject: &mut impl Subject) {
        let decided = self.descriptions.decided_by_plugin(line).into_iter();
        let decided: Vec<String> = decided.filter(|it| self.scope.has(it)).collect();
        self.lose("topology-plugin", decided, subject);
    }

    /// Leaves out groups that muster deletes before Kafka's plugin has deleted their descriptions.
    pub(super) fn lose_undescribed(
        &mut self,
        kafka: &mut Outcome,
        muster: &mut Outcome,
        subject: &mut impl Subject,
    ) {
        self.descriptions.narrow(muster, &self.pending);
        for _ in 0..self.descriptions.adopt_asking(kafka, muster, &self.pending) {
            self.report.argued.meet("description-asked");
        }
        if self.append_fails {
            return;
        }
        for group in self.descriptions.deleted_early(kafka, muster) {
            self.take_back("topology-plugin", &group, subject);
        }
        self.narrow(kafka, muster);
    }

    /// Kafka's log refused records. Leaves their groups out of the comparison until the next load.
    pub(super) fn lose_failed_append(
        &mut self,
        line: &Line,
        kafka: &mut Outcome,
        muster: &mut Outcome,
        subject: &mut impl Subject,
    ) {
        if !self.append_fails {
            return;
        }
        // If two writes were made at the same time, perhaps only one of them failed.
        let written = |key| kafka.records.get(key).map_or(0, Vec::len);
        let failed = muster.records.iter().filter(|(key, records)| written(key) < records.len());
        let lost: BTreeSet<String> = failed.map(|((_, group), _)| group.clone()).collect();
        self.append_fails = lost.is_empty() && kafka_records(line).next().is_none();
        let unrecorded = self.scope.unrecorded().filter(|_| !lost.is_empty());
        let lost: BTreeSet<String> = unrecorded.map(str::to_owned).chain(lost.clone()).collect();
        for group in &self.written_with(&lost) {
            self.report.argued.meet("failed-append");
            self.scope.lose(group, "failed-append");
            if let Some(muster) = subject.muster() {
                muster.take_back(group);
                muster.lose(group);
            }
        }
        self.drop_pending();
        self.narrow(kafka, muster);
    }

    /// Adds all groups that one request names with one of these: a request's write fails as a
    /// whole.
    fn written_with(&self, groups: &BTreeSet<String>) -> BTreeSet<String> {
        let writes = self.pending.values().filter(|asked| !asked.reads());
        let of_them = writes.filter(|asked| asked.groups.iter().any(|it| groups.contains(it)));
        of_them.flat_map(|asked| &asked.groups).chain(groups).cloned().collect()
    }

    /// Leaves out a group for which Kafka answers an error, and muster none. The group was about to
    /// be converted to another protocol, or is a streams group with endpoints.
    pub(super) fn lose_unserved(
        &mut self,
        line: &Line,
        kafka: &mut Outcome,
        muster: &mut Outcome,
        subject: &mut impl Subject,
    ) {
        let id = line.input["id"].as_str().unwrap_or_default();
        let code = |outcome: &Outcome| outcome.answers.get(id)?["errorCode"].as_i64();
        let differs = code(kafka) == Some(UNKNOWN) && code(muster).unwrap_or(0) == 0;
        let is_gone =
            |record: &Value| record["type"] == "GROUP_METADATA" && record["value"].is_null();
        let converts = muster.records.values().flatten().any(is_gone);
        let beats = line.input["api"] == "StreamsGroupHeartbeat";
        let difference = if beats { "unready-endpoints" } else { "partition-gone" };
        let group = line.input["body"]["groupId"].as_str().unwrap_or_default();
        if differs && (converts || beats) {
            self.take_back(difference, group, subject);
            self.narrow(kafka, muster);
        }
    }

    /// Leaves out a group if Kafka raises its epoch at each heartbeat of one member, or uses a copy
    /// of the group's target that lacks a member or contains a former one.
    pub(super) fn lose_tied(
        &mut self,
        line: &Line,
        kafka: &mut Outcome,
        muster: &mut Outcome,
        subject: &mut impl Subject,
    ) {
        let tied = self.votes.tied(line, kafka, muster).map(|group| ("assignor-tie", group));
        let is_muster = subject.muster().is_some();
        let rival = || self.rivals.differing(line, kafka, muster).filter(|_| is_muster);
        if let Some((difference, group)) = tied.or_else(|| Some(("target-at-hand", rival()?))) {
            self.take_back(difference, group, subject);
            self.narrow(kafka, muster);
        }
    }

    /// Leaves out groups whose partitions Kafka assigned by chance.
    pub(super) fn lose_misplaced(
        &mut self,
        line: &Line,
        kafka: &mut Outcome,
        muster: &mut Outcome,
        subject: &mut impl Subject,
    ) {
        if subject.muster().is_none() {
            return;
        }
        let mut lost = BTreeMap::new();
        for ((at, group), records) in &kafka.records {
            let ours = muster.records.get(&(*at, group.clone())).filter(|ours| *ours != records);
            let chance = ours.and_then(|ours| placement::chance(&line.input, records, ours));
            lost.extend(chance.map(|difference| (group.clone(), difference)));
        }
        for (group, difference) in lost {
            self.take_back(difference, &group, subject);
        }
        self.narrow(kafka, muster);
    }

    /// Leaves out groups in which Kafka still fences a member by a timer that the member had before
    /// the group became a classic group. Kafka does not cancel such timers.
    pub(super) fn lose_fenced_late(
        &mut self,
        line: &Line,
        kafka: &mut Outcome,
        muster: &mut Outcome,
        subject: &mut impl Subject,
    ) {
        let only_kafkas = kafka.records.keys().filter(|key| !muster.records.contains_key(key));
        let late = only_kafkas.filter(|(_, group)| self.downgraded.contains(group));
        let late: BTreeSet<String> = late.map(|(_, group)| group.clone()).collect();
        if line.input["op"] == "advance" && subject.muster().is_some() && !late.is_empty() {
            self.lose("stale-timer", late, subject);
            self.narrow(kafka, muster);
        }
        if line.input["op"] == "reload" {
            self.downgraded.clear();
        }
        let is_classic = |record: &&Value| record["type"] == "GROUP_METADATA";
        let records = kafka_records(line).collect::<Vec<_>>();
        let consumer_gone = |group: &str| {
            records.iter().any(|record| {
                record["type"] == "CONSUMER_GROUP_METADATA"
                    && record["value"].is_null()
                    && group_of(record) == group
            })
        };
        let classic = records.iter().copied().filter(is_classic).map(group_of);
        let downgraded = classic.filter(|group| consumer_gone(group)).map(str::to_owned);
        self.downgraded.extend(downgraded.collect::<Vec<_>>());
    }

    /// Leaves out a group that gets a request while it is in `in_flight`. While commits are held,
    /// also leaves out a group that gets a topology's description, and a group that is deleted
    /// while any record, perhaps of another group, is not committed.
    pub(super) fn lose_in_flight(&mut self, line: &Line, subject: &mut impl Subject) {
        let Some(asked) = self.scope.ask(line).filter(|asked| !asked.reads()) else { return };
        let waits = match asked.api {
            ApiKey::DeleteGroups => uncommitted(subject),
            api => api == ApiKey::StreamsGroupTopologyDescriptionUpdate,
        };
        let in_flight = |group: &&String| self.held && waits || self.in_flight.contains(*group);
        let groups: Vec<String> = asked.groups.iter().filter(in_flight).cloned().collect();
        self.lose("held-group", groups, subject);
    }

    /// If commits are no longer held, leaves out the groups of `in_flight`: in Kafka, their state
    /// has the time of the commit. While commits are held, adds groups that get such a record.
    pub(super) fn observe_flight(&mut self, line: &Line, subject: &mut impl Subject) {
        let op = line.input["op"].as_str();
        if !self.held || matches!(op, Some("commit" | "topics")) {
            let landed = std::mem::take(&mut self.in_flight);
            self.lose("held-group", landed, subject);
        }
        if op == Some("reload") {
            self.in_flight.clear();
        }
        let joins = line.input["api"] == "JoinGroup";
        let metadata = |record: &&Value| joins || record["type"] == "GROUP_METADATA";
        let records = kafka_records(line).filter(metadata);
        let groups = records.map(|record| group_of(record).to_owned());
        self.in_flight.extend(groups.filter(|_| self.held));
    }

    /// Leaves out an empty consumer or streams group when a classic member with a member id joins
    /// it: Kafka then forgets the group.
    pub(super) fn lose_vanished(&mut self, line: &Line, subject: &mut impl Subject) {
        let body = &line.input["body"];
        let is_join = line.input["api"] == "JoinGroup" && body["memberId"] != "";
        let group = body["groupId"].as_str().unwrap_or_default();
        let is_empty = |muster: &mut Muster| muster.is_empty_modern_group(group);
        if is_join && self.scope.has(group) && subject.muster().is_some_and(is_empty) {
            self.lose("vanished-group", [group.to_owned()], subject);
        }
    }

    /// Leaves out a group, and removes the records that this line wrote for it from muster's log.
    fn take_back(&mut self, difference: &'static str, group: &str, subject: &mut impl Subject) {
        subject.muster().into_iter().for_each(|muster| muster.take_back(group));
        self.lose(difference, [group.to_owned()], subject);
    }

    /// Leaves out of both outcomes the groups that have left the comparison.
    fn narrow(&self, kafka: &mut Outcome, muster: &mut Outcome) {
        for outcome in [kafka, muster] {
            outcome.narrow(&self.scope, &self.pending);
        }
    }

    pub(super) fn lose(
        &mut self,
        difference: &'static str,
        groups: impl IntoIterator<Item = String>,
        subject: &mut impl Subject,
    ) {
        for group in groups {
            self.report.argued.meet(difference);
            self.scope.lose(&group, difference);
            if let Some(muster) = subject.muster() {
                muster.lose(&group);
            }
        }
        self.drop_pending();
    }
}
