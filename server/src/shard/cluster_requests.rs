//! Requests of topics and of the cluster: to the partitions, to the controller, or answered from
//! the image of the cluster.

use super::{AdminRequest, Command, Message, Shard};
use crate::admin;
use crate::dispatch::{Call, cluster_response};
use crate::net::ConnectionId;
use crate::partitions::{self, Effects};
use crate::placement::CONTROLLER;
use muster_codec::messages::*;
use muster_codec::{ApiKey, ClusterRequest, PartitionRequest, Str};
use muster_coordinator::RequestId;
use std::sync::Arc;

impl Shard {
    pub(crate) fn partition_request(&mut self, call: &Call<'_>, request: &PartitionRequest<'_>) {
        let image = self.image.clone();
        let call = partitions::Call {
            now: self.now,
            wall: self.wall,
            request: call.request,
            version: call.version,
            image: &image,
        };
        let mut effects = Effects::default();
        let out = &mut effects;
        match request {
            PartitionRequest::Produce(body) => self.partitions.produce(call, body, out),
            PartitionRequest::Fetch(body) => {
                self.connections.hold(call.request);
                self.partitions.fetch(call, body, out);
            }
            PartitionRequest::ListOffsets(body) => {
                self.connections.hold(call.request);
                self.partitions.list_offsets(call, body, out);
            }
            PartitionRequest::DeleteRecords(body) => {
                self.partitions.delete_records(call, body, out)
            }
            PartitionRequest::OffsetForLeaderEpoch(body) => {
                self.partitions.offset_for_leader_epoch(call, body, out);
            }
        }
        self.perform(effects);
    }

    /// Only the controller changes the cluster: its log is the one that all obey.
    pub(crate) fn ask_controller(&mut self, call: &Call<'_>, api: ApiKey) {
        let (from, request) = (self.number, call.request);
        let Some(host) = self.host(request) else { return };
        let admin = AdminRequest { api, version: call.version, host, body: call.body.to_vec() };
        self.connections.hold(request);
        self.send_to_controller(Message::Admin { from, request, admin });
    }

    pub(crate) fn send_to_controller(&mut self, message: Message) {
        self.commands.push(Command::Mail { to: CONTROLLER, message });
    }

    pub(crate) fn metadata(&mut self, call: &Call<'_>, body: &MetadataRequest<'_>) {
        let (response, to_create) = admin::metadata(
            &self.common.view(&self.image, &self.offline, self.number),
            call.version,
            body,
        );
        let response = response.into();
        self.connections.answer_now(call.request, &response);
        self.create_topics(call.request, to_create);
    }

    /// Has topics created that a request for Metadata named.
    pub(crate) fn create_topics(&mut self, request: RequestId, topics: Vec<String>) {
        if let Some(host) = self.host(request).filter(|_| !topics.is_empty()) {
            self.send_to_controller(Message::AutoCreate { topics, host });
        }
    }

    /// What each partition takes on the disk that this shard leads.
    pub(crate) fn describe_log_dirs(&mut self, call: &Call<'_>, body: &DescribeLogDirsRequest<'_>) {
        let log_dir = Str::Borrowed(&*self.common.data);
        let topics = self.partitions.describe_log_dirs(&self.image, body);
        let result = DescribeLogDirsResult { log_dir, topics, ..Default::default() };
        let response = DescribeLogDirsResponse { results: vec![result], ..Default::default() };
        self.connections.answer_now(call.request, &response.into());
    }

    /// The address of the client that sent a request.
    fn host(&self, request: RequestId) -> Option<Arc<str>> {
        let connection = self.connections.get(ConnectionId(request.connection));
        connection.map(|connection| connection.host.clone())
    }

    /// A client that uses transactions may say little of why it ends.
    pub(crate) fn log_transactions(&mut self, request: RequestId, client: &str) {
        let Some(host) = self.host(request) else { return };
        let words = format_args!(
            "client {client:?} at {host} uses transactions, which muster does not serve: it is \
             refused, with an error that is final"
        );
        self.request_error("transactions", words);
    }

    /// Requests that the image and the config answer.
    pub(crate) fn cluster_request(&mut self, call: &Call<'_>, request: &ClusterRequest<'_>) {
        if let ClusterRequest::FindCoordinator(body) = request
            && admin::is_of_transactions(body)
        {
            self.log_transactions(call.request, &call.client_id);
        }
        let view = self.common.view(&self.image, &self.offline, self.number);
        let response = cluster_response(&view, call.version, request);
        self.connections.answer_now(call.request, &response);
    }
}
