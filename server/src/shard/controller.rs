//! The controller, on shard 0: decides changes of the cluster, writes them to the log, and sends
//! the new image to all shards once it is durable.

use super::loading::limits;
use super::{AdminRequest, Command, Message, Shard};
use crate::cluster::{
    self, BROKER_RESOURCE, Change, ClusterImage, Creator, TOPIC_RESOURCE, limits::CREATOR_SHARE,
};
use crate::config::compaction;
use muster_codec::records::ClusterRecord;
use muster_codec::{ControllerRequest, ControllerResponse, Reader, Request};
use muster_coordinator::{RequestId, Shares, Topics};
use muster_storage::AppendError;
use muster_storage::injected::{self, Fault};
use std::collections::VecDeque;
use std::sync::Arc;
use tracing::error;

/// The most records in one operation of the log.
const FORGOTTEN_AT_ONCE: usize = 10_000;

/// Changes that are not durable yet, and the image before and after them.
#[derive(Debug)]
pub(crate) struct Controller {
    /// With all accepted changes: requests are checked against it.
    accepted: ClusterImage,
    /// With all durable changes: the image of the shards.
    published: Arc<ClusterImage>,
    unpublished: VecDeque<(u64, Vec<ClusterRecord<'static>>)>,
    answers: VecDeque<(u64, Pending)>,
    /// The version of the topics up to which each shard's groups have no offsets of deleted topics.
    forgotten: Vec<Option<i64>>,
    /// The shares of addresses in what they may create by naming it.
    shares: Shares,
}

/// A message to a shard that waits until a position is durable.
#[derive(Debug)]
struct Pending {
    to: u32,
    message: Message,
}

impl Controller {
    pub(crate) fn new(image: Arc<ClusterImage>, shards: u32) -> Self {
        Self {
            forgotten: vec![None; shards as usize],
            shares: Shares::new(CREATOR_SHARE),
            accepted: ClusterImage::clone(&image),
            published: image,
            unpublished: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    /// The image with all changes that the log has accepted.
    pub(crate) fn accepted(&self) -> &ClusterImage {
        &self.accepted
    }

    /// Answers all pending requests with an error: their changes may have been made.
    pub(super) fn leave(self) -> impl Iterator<Item = Command> {
        self.answers.into_iter().map(|(_, Pending { to, mut message })| {
            message.fail();
            Command::Mail { to, message }
        })
    }

    /// The new image, if changes became durable since the last call.
    fn publish(&mut self, flushed: u64) -> Option<Arc<ClusterImage>> {
        let mut changed = false;
        while let Some((position, records)) =
            self.unpublished.pop_front_if(|(at, _)| *at <= flushed)
        {
            Arc::make_mut(&mut self.published).apply_at(position, &records);
            changed = true;
        }
        changed.then(|| self.published.clone())
    }
}

impl Shard {
    /// Decides a request that changes the cluster, for a client of shard `from`.
    pub(crate) fn decide(&mut self, from: u32, request: RequestId, admin: &AdminRequest) {
        let mut reader = Reader::of_request(&admin.body);
        let body = Request::read(admin.api, admin.version, &mut reader);
        let Some(body) = body.ok().and_then(|body| ControllerRequest::try_from(body).ok()) else {
            return error!("shard {from} sent {} that is not readable", admin.api.name());
        };
        let Some(change) = self.change(admin, &body) else { return };
        let response = Box::new(change.response);
        let message = Message::AdminAnswer { request, response };
        self.write_change(change.records, Pending { to: from, message });
    }

    fn change(
        &mut self,
        admin: &AdminRequest,
        request: &ControllerRequest<'_>,
    ) -> Option<Change<ControllerResponse<'static>>> {
        let Controller { accepted, shares, .. } = self.controller.as_mut()?;
        let view = self.common.view(accepted, &self.offline, self.number);
        let (ids, version) = (self.ids.as_mut(), admin.version);
        Some(match request {
            ControllerRequest::CreateTopics(body) => {
                cluster::create_topics(&view, ids, version, body).map(Into::into)
            }
            ControllerRequest::DeleteTopics(body) => {
                cluster::delete_topics(&view, self.wall, version, body).map(Into::into)
            }
            ControllerRequest::CreatePartitions(body) => {
                cluster::create_partitions(&view, body).map(Into::into)
            }
            ControllerRequest::AlterConfigs(body) => {
                let mut creator = Creator { shares, now: self.now, host: &admin.host };
                cluster::alter_configs(&view, &mut creator, body).map(Into::into)
            }
            ControllerRequest::IncrementalAlterConfigs(body) => {
                let mut creator = Creator { shares, now: self.now, host: &admin.host };
                cluster::incremental_alter_configs(&view, &mut creator, body).map(Into::into)
            }
        })
    }
}

impl Shard {
    /// Creates topics that a client has named and may create.
    pub(crate) fn auto_create(&mut self, topics: &[String], host: &str) {
        let Some(Controller { accepted, shares, .. }) = self.controller.as_mut() else { return };
        let view = self.common.view(accepted, &self.offline, self.number);
        let mut creator = Creator { shares, now: self.now, host };
        let (records, refused) =
            cluster::auto_create(&view, self.ids.as_mut(), &mut creator, topics);
        if let Some(why) = refused {
            let words =
                format_args!("topics that a client at {host} named were not created: {why}");
            self.request_error("auto-create", words);
        }
        if let Err(error) = self.write_records(records) {
            self.request_error("auto-create", format_args!("topics were not created: {error}"));
        }
    }

    pub(crate) fn send_producer_ids(&mut self, to: u32) {
        let Some(controller) = self.controller.as_ref() else { return };
        let (records, block) = cluster::allocate_producer_ids(&controller.accepted);
        let message = Message::ProducerIdBlock { first: block.first, count: block.count };
        self.write_change(records, Pending { to, message });
    }

    /// The groups of a shard have no offsets left of the topics deleted up to a version. Topics
    /// without offsets on all shards are no longer recorded.
    pub(crate) fn forgotten(&mut self, from: u32, version: i64) {
        let Some(controller) = self.controller.as_mut() else { return };
        controller.forgotten[from as usize] = Some(version);
        let Some(version) = controller.forgotten.iter().copied().min().flatten() else { return };
        let over = controller.accepted.deleted().filter(|(_, topic)| topic.version <= version);
        let records: Vec<_> = over.map(|(id, _)| cluster::deleted_topic_record(id, None)).collect();
        for records in records.chunks(FORGOTTEN_AT_ONCE) {
            if let Err(error) = self.write_records(records.to_vec()) {
                error!("records of deleted topics stay until the next start: {error}");
            }
        }
    }

    /// Writes the records of a change; the pending message is sent once they are durable.
    fn write_change(&mut self, records: Vec<ClusterRecord<'static>>, mut pending: Pending) {
        let position = self.write_records(records).unwrap_or_else(|error| {
            let words = format_args!("a change of the cluster was not written: {error}");
            self.request_error("change", words);
            pending.message.fail();
            0
        });
        if let Some(controller) = self.controller.as_mut() {
            controller.answers.push_back((position, pending));
        }
        self.publish();
    }

    /// Returns the position of the cluster that must be durable before the accepted image may be
    /// seen.
    pub(super) fn write_records(
        &mut self,
        records: Vec<ClusterRecord<'static>>,
    ) -> Result<u64, AppendError> {
        let Some(controller) = self.controller.as_mut() else { return Ok(0) };
        if !records.is_empty() {
            let position = self.groups.append_cluster(self.now, &records)?;
            controller.accepted.apply_at(position, &records);
            controller.unpublished.push_back((position, records));
        }
        Ok(controller.unpublished.back().map_or(0, |(position, _)| *position))
    }

    /// Sends durable changes: first the image to all shards, then the answers, so that a client
    /// whose topic was created finds it on its shard.
    pub(crate) fn publish(&mut self) {
        let flushed = self.groups.cluster_flushed();
        let Some(controller) = self.controller.as_mut() else { return };
        if let Some(image) = controller.publish(flushed) {
            for to in 0..self.common.placement.shards {
                self.commands.push(Command::Mail { to, message: Message::Image(image.clone()) });
            }
        }
        while let Some((_, pending)) = controller.answers.pop_front_if(|(at, _)| *at <= flushed) {
            let Pending { to, message } = pending;
            self.commands.push(Command::Mail { to, message });
        }
    }

    /// Takes a new image: adds and removes partitions, and removes offsets of deleted topics.
    ///
    /// An older one was sent before shard 0 was loaded again, which read later changes from its
    /// log: the partitions of topics in them would be removed.
    pub(crate) fn image_changed(&mut self, image: Arc<ClusterImage>) {
        if image.version() < self.image.version() && !injected::is(Fault::StaleImage) {
            return;
        }
        let before = std::mem::replace(&mut self.image, image.clone());
        self.forget_deleted(Some(&before));
        let mut effects = crate::partitions::Effects::default();
        self.config = self.common.config.with_dynamic(&image, self.number);
        self.connections.set_limits(limits(&self.config));
        self.groups.slots.configure(&self.config, Some(&before), &image);
        let is_other = |of_type| !image.reconfigured(&before, of_type).is_empty();
        if [BROKER_RESOURCE, TOPIC_RESOURCE].into_iter().any(is_other) {
            let shards = self.common.placement.shards;
            self.groups.log.set_compaction(compaction(&self.config, &image, shards));
        }
        self.partitions.image_changed(self.times(), &self.config, &image, &mut effects);
        self.perform(effects);
    }
}
