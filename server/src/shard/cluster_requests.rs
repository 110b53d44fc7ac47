//! Requests about topics and the cluster. They go to the partitions or to the controller, or are
//! answered from the image of the cluster.

use super::Shard;
use crate::admin;
use crate::clock::Times;
use crate::cluster::{self, Topic, leader};
use crate::dispatch::{Call, cluster_response};
use crate::groups::OffsetMarkers;
use crate::net::ConnectionId;
use crate::partitions::{self, Effects};
use crate::placement::Slot;
use crate::topics::InternalTopic;
use crate::volume::Volume;
use muster_codec::messages::*;
use muster_codec::{ApiKey, ClusterRequest, PartitionRequest, Str};
use muster_coordinator::RequestId;
use muster_storage::LogPartition;
use std::collections::BTreeMap;

impl Shard {
    pub(crate) fn partition_request(&mut self, call: &Call<'_>, request: &PartitionRequest<'_>) {
        let Times { now, wall, .. } = self.times;
        let (request_id, version, listener) = (call.request, call.version, call.listener);
        let address = self.clients.address(call.request);
        let image = self.broker.image();
        let call =
            partitions::Call { now, wall, request: request_id, version, listener, address, image };
        let mut effects = Effects::default();
        let out = &mut effects;
        match request {
            PartitionRequest::Produce(body) => {
                self.partitions.produce(call, body, out);
                if !out.questions.is_empty() {
                    self.clients.answers().hold(call.request);
                }
            }
            PartitionRequest::Fetch(body) => {
                self.clients.answers().hold(call.request);
                self.partitions.fetch(call, body, out);
            }
            PartitionRequest::ListOffsets(body) => {
                self.clients.answers().hold(call.request);
                self.partitions.list_offsets(call, body, out);
            }
            PartitionRequest::DeleteRecords(body) => {
                self.partitions.delete_records(call, body, out)
            }
            PartitionRequest::WriteTxnMarkers(body) => {
                let (groups, runtime) = (&mut self.groups, &mut self.runtime);
                let offsets = &mut OffsetMarkers { groups, runtime };
                self.partitions.write_txn_markers(call, body, offsets, out);
            }
            PartitionRequest::DescribeProducers(body) => {
                let (groups, runtime) = (&mut self.groups, &mut self.runtime);
                let offsets = &OffsetMarkers { groups, runtime };
                self.partitions.describe_producers(call, body, offsets, out);
            }
            PartitionRequest::OffsetForLeaderEpoch(body) => {
                self.partitions.offset_for_leader_epoch(call, body, out);
            }
        }
        self.perform(effects);
    }

    pub(crate) fn metadata(&mut self, call: &Call<'_>, body: &MetadataRequest<'_>) {
        let (response, to_create) =
            admin::metadata(&self.broker.view_on(call.listener), call.version, body);
        let response = response.into();
        self.clients.answers().answer_now(call.request, &response);
        self.create_topics(call.request, to_create);
    }

    /// The bytes of each partition that this shard leads, and of the volume.
    pub(crate) fn describe_log_dirs(&mut self, call: &Call<'_>, body: &DescribeLogDirsRequest<'_>) {
        let (common, view) = (self.broker.common(), self.broker.view());
        let sizes: BTreeMap<LogPartition, u64> = self.runtime.log().sizes().collect();
        let internal = |topic: &Topic, index| {
            let is_led = leader(topic, index, view.placement) == view.shard;
            let at = InternalTopic::of_id(topic.id)?.log_partition(index as u32);
            is_led.then(|| sizes.get(&at).copied().unwrap_or(0))
        };
        let topics = self.partitions.describe_log_dirs(view.image, body, internal);
        let volume = common.space.volume();
        let bytes = |of: fn(Volume) -> u64| volume.map_or(-1, |it| of(it).cast_signed());
        let result = DescribeLogDirsResult {
            log_dir: Str::Borrowed(&common.data),
            topics,
            total_bytes: bytes(|it| it.total),
            usable_bytes: bytes(|it| it.usable),
            ..Default::default()
        };
        let response = DescribeLogDirsResponse { results: vec![result], ..Default::default() };
        self.clients.answers().answer_now(call.request, &response.into());
    }

    /// Describes the quorums of slots that this shard leads.
    pub(super) fn describe_slots(&mut self, call: &Call<'_>, body: &DescribeQuorumRequest<'_>) {
        let replicas = self.runtime.replication();
        let standing = |slot: Slot| replicas.and_then(|it| it.standing(slot.log_slot()));
        let view = self.broker.view_on(call.listener);
        let response = cluster::describe_slots(&view, standing, self.times.wall, body);
        self.clients.answers().answer_now(call.request, &response.into());
    }

    pub(super) fn alter_replica_log_dirs(
        &mut self,
        call: &Call<'_>,
        body: &AlterReplicaLogDirsRequest<'_>,
    ) {
        let view = self.broker.view_on(call.listener);
        let data = &self.broker.common().data;
        let response = admin::alter_replica_log_dirs(&view, data, body);
        self.clients.answers().answer_now(call.request, &response.into());
    }

    pub(super) fn init_producer_id(&mut self, call: &Call<'_>, body: &InitProducerIdRequest<'_>) {
        let (answers, out) = (self.clients.answers(), &mut self.commands);
        self.controller_requests.init_producer_id(call, body, answers, out);
    }

    /// Passes a request to the controller, which alone changes the cluster.
    pub(super) fn ask_controller(&mut self, call: &Call<'_>, api: ApiKey) {
        let Some(host) = self.clients.host(call.request) else { return };
        let quotas = self.broker.image().client_quotas();
        let Some(principal) = self.clients.principal(call.request) else { return };
        let limit = self.clients.mutation_limit(call.request, quotas);
        let out = &mut self.commands;
        if self.controller_requests.ask(call, api, host, principal, limit, out) {
            return self.clients.answers().hold(call.request);
        }
        let id = ConnectionId(call.request.connection);
        let reason = "too many requests wait for the controller".to_owned();
        self.clients.close(id, reason, &mut self.commands);
    }

    /// Asks the controller to create topics that do not exist and that a client's request names.
    pub(super) fn create_topics(&mut self, request: RequestId, topics: Vec<String>) {
        let host = self.clients.host(request).filter(|_| !topics.is_empty());
        let Some(host) = host else { return };
        self.controller_requests.create_topics(topics, host, &mut self.commands);
    }

    /// Answers a request from the image and the config.
    pub(crate) fn cluster_request(&mut self, call: &Call<'_>, request: &ClusterRequest<'_>) {
        if let ClusterRequest::SaslHandshake(_) = request {
            self.report_handshake(call.request);
        }
        if let ClusterRequest::ApiVersions(body) = request {
            self.note_software(ConnectionId(call.request.connection), body);
        }
        let view = self.broker.view_on(call.listener);
        let response = cluster_response(&view, call.version, request);
        self.clients.answers().answer_now(call.request, &response);
    }

    /// Keeps the name and version of a client's software.
    pub(super) fn note_software(&mut self, id: ConnectionId, body: &ApiVersionsRequest<'_>) {
        let software = (&*body.client_software_name, &*body.client_software_version);
        self.clients.set_software(id, software);
    }

    /// Logs that a client authenticates although it need not, or authenticates again too soon, and
    /// is refused.
    fn report_handshake(&mut self, request: RequestId) {
        let Self { clients, audit, times, .. } = self;
        let Some((host, principal)) = clients.host(request).zip(clients.principal(request)) else {
            return;
        };
        let listener = clients.listener_name(ConnectionId(request.connection));
        audit.handshake_refused(times.now, &principal, (&host, listener));
    }
}
