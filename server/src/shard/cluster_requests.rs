//! Requests of topics and of the cluster: to the partitions, to the controller, or answered from
//! the image of the cluster.

use super::Shard;
use crate::admin;
use crate::dispatch::{Call, cluster_response};
use crate::partitions::{self, Effects};
use muster_codec::messages::*;
use muster_codec::{ClusterRequest, PartitionRequest, Str};
use muster_coordinator::RequestId;

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

    /// What each partition takes on the disk that this shard leads.
    pub(crate) fn describe_log_dirs(&mut self, call: &Call<'_>, body: &DescribeLogDirsRequest<'_>) {
        let log_dir = Str::Borrowed(&*self.common.data);
        let topics = self.partitions.describe_log_dirs(&self.image, body);
        let result = DescribeLogDirsResult { log_dir, topics, ..Default::default() };
        let response = DescribeLogDirsResponse { results: vec![result], ..Default::default() };
        self.connections.answer_now(call.request, &response.into());
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
