//! The controller: decides changes of the state that all shards share: topics, configs, producer
//! ids, credentials, ACLs, client quotas. It runs on shard 0, whose log contains the records of the
//! cluster.
//!
//! [`Controller::take`] handles the messages of shards; [`Inputs`] has all else that a decision
//! needs. [`Controller::publish`] is called at the end of each flush of the log. When a change is
//! durable, it sends the new image to all shards, and then the answers. So a client whose topic was
//! created finds the topic on its shard. The answer to a change of access rights waits until every
//! shard has applied the image (`access.rs`).
//!
//! [`ControllerRequests`] is the other side, on every shard: it sends requests that only the
//! controller decides, and limits the requests that wait there.
//!
//! The answer to a change of certificates waits while the certificate thread checks the resulting
//! certificates (`certificates.rs`).
//!
//! A group coordinator only names the internal topics that a streams group lacks.
//! `shard/streams_groups.rs` checks that the client may create topics, and `missing_topics.rs`
//! keeps the creations under way. The group finds the created topics in its next image. If a
//! creation failed, the status in later answers says why.
//!
//! When a topic is deleted, shard 0 writes the deletion. Then each shard writes tombstones for the
//! topic's offsets in its groups, and reports when they are durable. The server may end before all
//! shards have reported. So until then the image has a record of the deleted topic, and every shard
//! that starts looks for offsets of topics with such a record.

mod accepted;
mod access;
mod certificates;
mod changes;
mod following;
mod missing_topics;
mod producer_ids;
mod requests;

pub(crate) use accepted::Accepted;
pub(crate) use missing_topics::AT_ONCE_MAX;
pub(crate) use requests::ControllerRequests;

use crate::clock::Times;
use crate::cluster::{
    self, Change, ClusterImage, Creator, MutationQuota, View, cluster_id_record,
    limits::CREATOR_SHARE,
};
use crate::config::{Config, ShardTls};
use crate::event::Command;
use crate::logging::RequestErrors;
use crate::mailbox::{AdminRequest, Created, Creation, FromController, ToBroker, ToController};
use crate::quotas::Buckets;
use access::Access;
use certificates::{Checks, Refusals, Waiting};
use changes::{By, ChangeLines};
use muster_codec::records::ClusterRecord;
use muster_codec::{ControllerRequest, ControllerResponse, ErrorCode, Reader, Request};
use muster_coordinator::{Ids, RequestId};
use muster_fairness::Shares;
use muster_runtime::{Runtime, Topic};
use muster_storage::{AppendError, LogSlot};
use std::collections::VecDeque;
use std::sync::Arc;
use tracing::{error, info};

/// The maximum number of records in one operation of the log that removes parts of the image.
const FORGOTTEN_AT_ONCE: usize = 10_000;

/// The controller. It has the changes that are not durable yet, the image without them, and the
/// image with them.
#[derive(Debug)]
pub(crate) struct Controller {
    /// The id in the stamp of the data directory.
    cluster_id: Arc<str>,
    /// The image with all accepted changes: requests are checked against it.
    accepted: Accepted,
    /// The image with all durable changes, which the shards have.
    published: Arc<ClusterImage>,
    unpublished: VecDeque<(u64, Vec<ClusterRecord<'static>>)>,
    answers: VecDeque<(u64, Pending)>,
    access: Access,
    checks: Checks,
    /// For each shard: up to which version of the image all offsets of deleted topics have been
    /// removed from the shard's groups. None if the shard has not reported yet.
    forgotten: Vec<Option<i64>>,
    /// How much each client address may use of the budget for topics and configs.
    shares: Shares,
    /// How much the clients have used of their controller mutation quotas.
    buckets: Buckets,
    lines: ChangeLines,
    /// In a cluster: the last entry whose changes other nodes made and this one has published.
    followed: u64,
}

/// A message to a shard, which is sent when the log is durable up to some position.
#[derive(Debug)]
struct Pending {
    to: u32,
    message: FromController,
    /// The version of the access rights that every shard must have applied before the message is
    /// sent. None if the message is not about access rights.
    access: Option<i64>,
}

/// A request from a client of shard `from`.
#[derive(Debug)]
struct Asked {
    from: u32,
    request: RequestId,
    admin: Box<AdminRequest>,
}

/// The inputs of a decision.
pub(crate) struct Inputs<'i> {
    pub(crate) times: Times,
    /// The view of shard 0. Decisions ignore its image, and use the controller's own, which has all
    /// changes that were accepted so far.
    pub(crate) view: View<'i>,
    pub(crate) ids: &'i mut dyn Ids,
    pub(crate) errors: &'i mut RequestErrors,
    pub(crate) runtime: &'i mut Runtime,
}

impl Controller {
    /// `common` is the config from the file and the command line; `config` also has configs that
    /// clients have altered.
    pub(crate) fn new(
        image: Arc<ClusterImage>,
        cluster_id: Arc<str>,
        shards: u32,
        common: &Arc<Config>,
        config: &Config,
    ) -> Self {
        Self {
            cluster_id,
            buckets: Buckets::new(config.controller_quota_window()),
            forgotten: vec![None; shards as usize],
            shares: Shares::new(CREATOR_SHARE),
            accepted: Accepted::new(ClusterImage::clone(&image), common),
            published: image,
            unpublished: VecDeque::new(),
            answers: VecDeque::new(),
            access: Access::new(shards),
            checks: Checks::default(),
            lines: ChangeLines::default(),
            followed: 0,
        }
    }

    /// The image with all changes that the log has accepted.
    pub(crate) fn accepted(&self) -> &ClusterImage {
        self.accepted.image()
    }

    /// The machine of the cluster's partition, for snapshots.
    pub(crate) fn topic(&mut self) -> &mut dyn Topic {
        self.accepted.topic()
    }

    /// The newest image that was sent to the shards.
    pub(crate) fn published(&self) -> &Arc<ClusterImage> {
        &self.published
    }

    /// Ends this controller. All pending requests are answered with an error, although their
    /// changes may have been made. Requests whose certificates are being checked go to the next
    /// controller.
    pub(crate) fn leave(self) -> impl Iterator<Item = Command> {
        let flushed = self.access.leave();
        let pending = flushed.chain(self.answers.into_iter().map(|(_, pending)| pending));
        let answers = pending.map(|Pending { to, mut message, .. }| {
            message.fail(ErrorCode::UnknownServerError);
            Command::mail(to, message)
        });
        answers.chain(self.checks.leave())
    }

    /// Handles a message. If the message named topics to create, returns the shard that sent it.
    pub(crate) fn take(&mut self, inputs: Inputs<'_>, message: ToController) -> Option<u32> {
        match message {
            ToController::Admin { from, request, admin } => {
                self.decide(inputs, Asked { from, request, admin }, None);
            }
            ToController::CertificatesChecked { number, refused } => {
                if let Some(Waiting { asked, replacements }) = self.checks.checked(number) {
                    self.decide(inputs, asked, Some((replacements, refused)));
                }
            }
            ToController::AutoCreate { from, topics, host } => {
                self.auto_create(inputs, &topics, &host);
                return Some(from);
            }
            ToController::CreateMissing { from, creation } => {
                self.create_missing(inputs, from, *creation);
            }
            ToController::ProducerIds { from } => self.send_producer_ids(inputs, from),
            ToController::AccessTaken { by, version } => self.access.taken(by, version),
            ToController::Forgotten { from, version } => self.forgotten(inputs, from, version),
        }
        None
    }

    /// Decides a request that changes the cluster. If the request leads to certificates that are
    /// not checked yet, orders their check instead.
    fn decide(
        &mut self,
        mut inputs: Inputs<'_>,
        asked: Asked,
        checked: Option<(Vec<ShardTls>, Refusals)>,
    ) {
        let Asked { from, request, ref admin } = asked;
        let mut reader = Reader::of_accepted_request(&admin.body);
        let body = Request::read(admin.api, admin.version, &mut reader);
        let Some(body) = body.ok().and_then(|body| ControllerRequest::try_from(body).ok()) else {
            return error!("shard {from} sent {} that is not readable", admin.api.name());
        };
        let view = View { image: self.accepted.image(), ..inputs.view };
        let replacements = cluster::certificates_of(&view, &body);
        let refused = match checked {
            Some((checked, refused)) if checked == replacements => refused,
            Some(_) | None if replacements.is_empty() => Refusals::new(),
            Some(_) | None => {
                drop(body);
                return self.checks.ask(asked, replacements);
            }
        };
        let change = self.change(&mut inputs, admin, &body, &refused);
        let inert = cluster::set_without_effect(&change.records).collect::<Vec<_>>().join(", ");
        if !inert.is_empty() {
            info!("altered by a client, but without effect in muster: {inert}");
        }
        let response = Box::new(change.response);
        let message = FromController::AdminAnswer { request, response };
        let is_of_access = access::is_changed_by(&body);
        let by = By { admin: Some(admin), host: &admin.host };
        self.write_change(inputs, Some(by), change.records, from, message, is_of_access);
    }

    fn change(
        &mut self,
        inputs: &mut Inputs<'_>,
        admin: &AdminRequest,
        request: &ControllerRequest<'_>,
        refused: &Refusals,
    ) -> Change<ControllerResponse<'static>> {
        let Inputs { times: Times { now, wall, .. }, ids, runtime, .. } = inputs;
        let view = View { image: self.accepted.image(), ..inputs.view };
        let mut creator = Creator { shares: &mut self.shares, now: *now, host: &admin.host };
        let buckets = &mut self.buckets;
        match request {
            ControllerRequest::CreateTopics(body) => {
                let quota = &mut quota(buckets, admin, 6, *now);
                cluster::create_topics(&view, *ids, quota, admin.version, body).map(Into::into)
            }
            ControllerRequest::DeleteTopics(body) => {
                let quota = &mut quota(buckets, admin, 5, *now);
                cluster::delete_topics(&view, *wall, quota, admin.version, body).map(Into::into)
            }
            ControllerRequest::CreatePartitions(body) => {
                let quota = &mut quota(buckets, admin, 3, *now);
                cluster::create_partitions(&view, quota, body).map(Into::into)
            }
            ControllerRequest::CreateAcls(body) => {
                cluster::create_acls(&view, body).map(Into::into)
            }
            ControllerRequest::DeleteAcls(body) => {
                cluster::delete_acls(&view, body).map(Into::into)
            }
            ControllerRequest::AlterConfigs(body) => {
                cluster::alter_configs(&view, &mut creator, body, refused).map(Into::into)
            }
            ControllerRequest::AlterClientQuotas(body) => {
                cluster::alter_client_quotas(&view, body).map(Into::into)
            }
            ControllerRequest::DescribeQuorum(body) => {
                let unpublished = self.unpublished.back().map(|(position, _)| *position);
                let end = unpublished.unwrap_or_else(|| runtime.flushed(LogSlot::UNPARTITIONED));
                let replicas = runtime.replication();
                let standing = replicas.and_then(|it| it.standing(LogSlot::UNPARTITIONED));
                cluster::describe_quorum(&view, standing.as_ref(), end, *wall, body).map(Into::into)
            }
            ControllerRequest::AlterUserScramCredentials(body) => {
                cluster::alter_user_scram_credentials(&view, body).map(Into::into)
            }
            ControllerRequest::IncrementalAlterConfigs(body) => {
                cluster::incremental_alter_configs(&view, &mut creator, body, refused)
                    .map(Into::into)
            }
        }
    }

    /// Creates topics that a client has named, within the share of the client's address.
    fn auto_create(&mut self, inputs: Inputs<'_>, topics: &[String], host: &Arc<str>) {
        let Inputs { times: Times { now, .. }, view, ids, errors, runtime } = inputs;
        let view = View { image: self.accepted.image(), ..view };
        let mut creator = Creator { shares: &mut self.shares, now, host };
        let (records, refused) = cluster::auto_create(&view, ids, &mut creator, topics);
        if let Some(why) = refused {
            let words =
                format_args!("topics that a client at {host} named were not created: {why}");
            errors.warn(now, "auto-create", words);
        }
        let by = By { admin: None, host };
        if let Err(error) = self.write_records(runtime, now, Some(by), records) {
            errors.log(now, "auto-create", format_args!("topics were not created: {error}"));
        }
    }

    /// Removes everything that clients have created in the shared state, for a reset.
    pub(crate) fn reset(&mut self, inputs: Inputs<'_>) {
        let Inputs { times: Times { now, wall, .. }, view, errors, runtime, .. } = inputs;
        let records = self.accepted().reset_records(view.config, wall);
        for records in records.chunks(FORGOTTEN_AT_ONCE) {
            if let Err(error) = self.write_records(runtime, now, None, records.to_vec()) {
                errors.log(now, "reset", format_args!("a reset was not written: {error}"));
            }
        }
    }

    /// Creates internal topics that are missing for a group of a shard.
    fn create_missing(&mut self, inputs: Inputs<'_>, from: u32, creation: Creation) {
        let Creation { topics, limit, retry_ms } = creation;
        let view = View { image: self.accepted.image(), ..inputs.view };
        let mut quota = MutationQuota::new(&mut self.buckets, limit, true, inputs.times.now);
        let change = cluster::create_missing(&view, &mut *inputs.ids, &mut quota, &topics);
        let topics = topics.into_iter().map(|it| it.name).collect();
        let created = Created { topics, failed: change.response, retry_ms };
        let message = FromController::MissingCreated(created);
        self.write_change(inputs, None, change.records, from, message, false);
    }

    /// Allocates a block of producer ids to a shard.
    fn send_producer_ids(&mut self, inputs: Inputs<'_>, to: u32) {
        if !inputs.runtime.leads(LogSlot::UNPARTITIONED) {
            let message = FromController::NoProducerIds;
            return self.answers.push_back((0, Pending { to, message, access: None }));
        }
        let (records, block) = cluster::allocate_producer_ids(self.accepted());
        let message = FromController::ProducerIdBlock { first: block.first, count: block.count };
        self.write_change(inputs, None, records, to, message, false);
    }

    /// Notes that the groups of a shard have no offsets of the topics deleted up to a version. The
    /// record of a deleted topic is removed once no shard has offsets of the topic.
    fn forgotten(&mut self, inputs: Inputs<'_>, from: u32, version: i64) {
        self.forgotten[from as usize] = Some(version);
        let Some(version) = self.forgotten.iter().copied().min().flatten() else { return };
        let over = self.accepted().deleted().filter(|(_, topic)| topic.version <= version);
        let records: Vec<_> = over.map(|(id, _)| cluster::deleted_topic_record(id, None)).collect();
        for records in records.chunks(FORGOTTEN_AT_ONCE) {
            let (now, records) = (inputs.times.now, records.to_vec());
            if let Err(error) = self.write_records(inputs.runtime, now, None, records) {
                error!("records of deleted topics stay until the next start: {error}");
            }
        }
    }

    /// Writes the records of a change. The message is sent once they are durable. A message about
    /// access rights also waits for all shards, even if its request changed nothing: they may not
    /// have applied an earlier change yet.
    fn write_change(
        &mut self,
        inputs: Inputs<'_>,
        by: Option<By<'_>>,
        records: Vec<ClusterRecord<'static>>,
        to: u32,
        mut message: FromController,
        is_of_access: bool,
    ) {
        let now = inputs.times.now;
        let written = self.write_records(inputs.runtime, now, by, records);
        let access = (is_of_access && written.is_ok()).then_some(self.accepted().access_version());
        let position = written.unwrap_or_else(|error| {
            let words = format_args!("a change of the cluster was not written: {error}");
            inputs.errors.log(now, "change", words);
            let is_others = error == AppendError::NotLeader;
            let (not_here, lost) = (ErrorCode::NotController, ErrorCode::UnknownServerError);
            message.fail(if is_others { not_here } else { lost });
            0
        });
        self.answers.push_back((position, Pending { to, message, access }));
    }

    /// Writes the records of a change, and logs it if a client made it. Returns a position in the
    /// cluster's slot. No client may see the accepted image until the log is durable up to this
    /// position.
    pub(crate) fn write_records(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        by: Option<By<'_>>,
        mut records: Vec<ClusterRecord<'static>>,
    ) -> Result<u64, AppendError> {
        if !records.is_empty() {
            // The first change also writes the id of the cluster, from which a lost stamp is
            // rebuilt.
            if self.accepted().cluster_id() != Some(&self.cluster_id) {
                records.push(cluster_id_record(&self.cluster_id));
            }
            let lines = by.map(|by| (by, changes::lines(self.accepted.image(), &records)));
            let appended = self.accepted.append(runtime, now, &records);
            let position = appended.map_err(|refused| refused.error)?;
            if let Some((by, lines)) = lines {
                self.lines.log(now, by, lines);
            }
            self.unpublished.push_back((position, records));
        }
        Ok(self.unpublished.back().map_or(0, |(position, _)| *position))
    }

    /// Sends the changes that are durable up to this position of the cluster's slot.
    pub(crate) fn publish(&mut self, flushed: u64, out: &mut Vec<Command>) {
        out.extend(self.checks.take_orders());
        let mut is_new = false;
        while let Some((position, records)) =
            self.unpublished.pop_front_if(|(at, _)| *at <= flushed)
        {
            Arc::make_mut(&mut self.published).apply_at(position, &records);
            is_new = true;
        }
        if is_new {
            self.send_image(out);
        }
        while let Some((_, pending)) = self.answers.pop_front_if(|(at, _)| *at <= flushed) {
            self.access.pass(pending, out);
        }
        self.access.pass_taken(out);
    }

    fn send_image(&self, out: &mut Vec<Command>) {
        for to in 0..self.forgotten.len() as u32 {
            out.push(Command::mail(to, ToBroker::Image(self.published.clone())));
        }
    }
}

/// The quota of a request. From version `strict_from` on, clients know the error
/// THROTTLING_QUOTA_EXCEEDED (KIP-599).
fn quota<'b>(
    buckets: &'b mut Buckets,
    admin: &AdminRequest,
    strict_from: i16,
    now: i64,
) -> MutationQuota<'b> {
    MutationQuota::new(buckets, admin.limit.clone(), admin.version >= strict_from, now)
}
