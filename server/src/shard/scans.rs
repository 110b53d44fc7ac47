//! Long requests, answered a slice at a time. One is under way; the others wait in the input of
//! their connections, in order of arrival, as an answer takes memory while it is gathered.

use super::Shard;
use super::group_router::GroupReply;
use super::slots::ListingOfSlots;
use crate::admin::{self, ResourceList};
use crate::cluster::ClusterImage;
use crate::dispatch::{
    self, Call, Gathered, Items, SLICE_WEIGHT, bytes_behind_list, cluster_response, request_length,
    topic_weight, uses_transactions,
};
use crate::net::{ConnectionId, Connections, Kind, VisibleAt};
use muster_codec::messages::{MetadataRequest, MetadataRequestTopic};
use muster_codec::{BrokerRequest, ClusterRequest, GroupRequest, Request, Response, Routed, Str};
use muster_coordinator::RequestId;
use muster_storage::injected::{self, Fault};
use std::collections::VecDeque;
use std::sync::Arc;

/// The long requests of a shard.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    under_way: Option<Scan>,
    /// Connections whose next request is a long one.
    waiting: VecDeque<ConnectionId>,
    /// Whether the scans are in the run queue.
    is_queued: bool,
}

/// The long request under way.
#[derive(Debug)]
struct Scan {
    rest: Rest,
    /// The topics and configs of the whole answer.
    image: Arc<ClusterImage>,
    answer: Answer,
}

/// The rest that is not answered yet.
#[derive(Debug)]
enum Rest {
    Items(Items),
    /// All groups behind the last one.
    Groups(ListingOfSlots),
    /// All topics from a name on.
    Topics(String, MetadataRequest<'static>),
    /// The resources that have configs.
    Resources(ResourceList),
    Nothing,
}

/// The answer so far, and the positions that it waits for.
#[derive(Debug)]
struct Answer {
    request: RequestId,
    version: i16,
    gathered: Gathered,
    visible_at: VisibleAt,
}

impl Scans {
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}

impl Rest {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    fn items(&self) -> usize {
        match self {
            Self::Items(items) => items.len(),
            Self::Groups(_) | Self::Topics(..) | Self::Resources(_) | Self::Nothing => 0,
        }
    }

    fn held(&self) -> usize {
        match self {
            Self::Items(items) => items.held(),
            Self::Groups(_) | Self::Topics(..) | Self::Resources(_) | Self::Nothing => 0,
        }
    }
}

impl Answer {
    /// Adds the answer of a slice. With the last one the answer is complete.
    fn add(&mut self, connections: &mut Connections, mut response: Response<'_>, is_last: bool) {
        let Self { request, version, gathered, visible_at } = self;
        if is_last && gathered.count == 0 {
            return connections.answer(*request, &response, std::mem::take(visible_at));
        }
        gathered.add(&mut response);
        if is_last {
            let behind = bytes_behind_list(*version, &response);
            let elements = std::mem::take(&mut gathered.elements);
            let list = (behind, gathered.count, elements);
            connections.answer_with_list(*request, &response, list, std::mem::take(visible_at));
        }
    }
}

impl Shard {
    /// Queues a connection whose next request is a long one, which stays in the input until its
    /// turn.
    pub(super) fn wait_to_scan(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.waits_to_scan = true;
        self.scans.waiting.push_back(id);
        self.queue_scans();
    }

    fn queue_scans(&mut self) {
        let has_some = self.scans.under_way.is_some() || !self.scans.waiting.is_empty();
        if has_some && !std::mem::replace(&mut self.scans.is_queued, true) {
            self.wait_for_scans();
        }
    }

    /// Answers a slice of the long request under way, or of the next one.
    pub(super) fn continue_scan(&mut self, is_over: &mut dyn FnMut() -> bool) {
        self.scans.is_queued = false;
        if let Some(mut scan) = self.scans.under_way.take().or_else(|| self.next_scan()) {
            self.answer_some(&mut scan);
            while !scan.rest.is_empty() && !self.is_to_pause(is_over) {
                self.answer_some(&mut scan);
            }
            self.scans.under_way = Some(scan).filter(|scan| !scan.rest.is_empty());
        }
        self.count_scan();
        self.queue_scans();
    }

    fn is_to_pause(&self, is_over: &mut dyn FnMut() -> bool) -> bool {
        self.groups.is_closed() || (is_over() && !injected::is(Fault::UnslicedScan))
    }

    /// Counts the bytes held for the long request under way.
    fn count_scan(&mut self) {
        let held = |scan: &Scan| scan.rest.held() + scan.answer.gathered.held();
        let held = self.scans.under_way.as_ref().map_or(0, held);
        self.connections.account.set(Kind::Scan, held);
    }

    /// Takes the next long request out of the input of its connection.
    fn next_scan(&mut self) -> Option<Scan> {
        while let Some(id) = self.scans.waiting.pop_front() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.waits_to_scan = false;
            let mut input = std::mem::take(&mut connection.input);
            let begun = self.begin_scan(id, &input);
            input.drain(..begun.as_ref().map_or(0, |(_, length)| *length));
            self.keep_input(id, input);
            if let Some((scan, _)) = begun {
                return Some(scan);
            }
        }
        None
    }

    /// Begins the request at the start of `input`, and returns its length. None if its connection
    /// has to wait.
    fn begin_scan(&mut self, id: ConnectionId, input: &[u8]) -> Option<(Scan, usize)> {
        if self.is_held_back(id, input) {
            return None;
        }
        let max_bytes = self.common.config.socket_request_max_bytes.unsigned_abs();
        let length = request_length(input, max_bytes).ok()??;
        let dispatch::Read { header, request, .. } = dispatch::read(input.get(4..length)?).ok()?;
        let request = request?;
        let version = header.api_version;
        let layout = request.api_key().version(version).ok()?;
        let uses_transactions = uses_transactions(&request);
        let rest = rest_of(version, dispatch::name_once(request, version).into())?;
        let gathered = Gathered::new(layout, rest.items(), rest.held());
        let request = self.connections.begin(id, header.correlation_id, version);
        self.connections.hold(request);
        if uses_transactions {
            self.log_transactions(request, &header.client_id.unwrap_or_default());
        }
        let answer = Answer { request, version, gathered, visible_at: VisibleAt::Now };
        Some((Scan { rest, image: self.image.clone(), answer }, length))
    }

    fn answer_some(&mut self, scan: &mut Scan) {
        match std::mem::replace(&mut scan.rest, Rest::Nothing) {
            Rest::Items(mut items) => {
                let count = self.items_at_once(&items);
                let Some((request, repeated)) = items.take(count) else { return };
                self.requests_handled += count as u64;
                if !items.is_empty() {
                    scan.rest = Rest::Items(items);
                }
                self.answer_items(scan, request, &repeated);
            }
            Rest::Topics(from, request) => self.answer_topics(scan, &from, request),
            Rest::Groups(listing) => self.answer_groups(scan, listing),
            Rest::Resources(list) => self.answer_resources(scan, list),
            Rest::Nothing => {}
        }
    }

    fn answer_groups(&mut self, scan: &mut Scan, mut listing: ListingOfSlots) {
        let is_last = self.groups.list(&mut listing, SLICE_WEIGHT);
        let response = listing.take();
        if response.error_code != 0 {
            scan.answer.gathered.clear();
        }
        scan.answer.visible_at.join(listing.visible_at());
        scan.answer.add(&mut self.connections, response.into(), is_last);
        if !is_last {
            scan.rest = Rest::Groups(listing);
        }
    }

    /// Answers the next topics, by name, like a request for them.
    fn answer_topics(&mut self, scan: &mut Scan, from: &str, all: MetadataRequest<'static>) {
        let image = scan.image.clone();
        let (mut weight, mut topics) = (0, Vec::new());
        for topic in image.all_topics_from(from) {
            if weight >= SLICE_WEIGHT {
                scan.rest = Rest::Topics(topic.name.to_string(), all.clone());
                break;
            }
            weight += topic_weight(topic);
            let name = Some(Str::Borrowed(&*topic.name));
            topics.push(MetadataRequestTopic { name, ..Default::default() });
        }
        let request = MetadataRequest { topics: Some(topics), ..all };
        self.answer_metadata(scan, &request);
    }

    fn answer_resources(&mut self, scan: &mut Scan, mut list: ResourceList) {
        let image = scan.image.clone();
        let view = self.common.view(&image, &self.offline, self.number);
        let response = list.next(&view, SLICE_WEIGHT);
        if response.error_code != 0 {
            scan.answer.gathered.clear();
        }
        let is_last = list.is_empty();
        if !is_last {
            scan.rest = Rest::Resources(list);
        }
        scan.answer.add(&mut self.connections, response.into(), is_last);
    }

    /// Answers a slice of items, like a request for them alone.
    fn answer_items(&mut self, scan: &mut Scan, request: Request<'static>, repeated: &[bool]) {
        match Routed::from(request) {
            Routed::Group(request) => self.answer_from_groups(scan, request),
            Routed::Cluster(request) => self.answer_from_image(scan, &request, repeated),
            Routed::Broker(BrokerRequest::Metadata(body)) => self.answer_metadata(scan, &body),
            // These have no long requests.
            Routed::Partition(_) | Routed::Controller(_) | Routed::Broker(_) => {}
        }
    }

    fn answer_from_groups(&mut self, scan: &mut Scan, request: GroupRequest<'static>) {
        let is_last = scan.rest.is_empty();
        let Answer { request: asked, version, .. } = scan.answer;
        let call = Call { request: asked, version, client_id: Str::default(), body: &[] };
        let id = ConnectionId(asked.connection);
        let own = &mut scan.answer;
        self.group_answers(id, &call, request, |connections, reply| {
            if reply.request == asked {
                own.visible_at.join(reply.visible_at);
                own.add(connections, reply.response, is_last);
            } else {
                GroupReply::send(connections, reply);
            }
        });
    }

    fn answer_from_image(
        &mut self,
        scan: &mut Scan,
        request: &ClusterRequest<'_>,
        repeated: &[bool],
    ) {
        let is_last = scan.rest.is_empty();
        let image = scan.image.clone();
        let view = self.common.view(&image, &self.offline, self.number);
        let response = if let ClusterRequest::DescribeConfigs(body) = request {
            let mut repeated = repeated.iter();
            let is_new = |_: i8, _: &str| repeated.next().is_none_or(|repeated| !repeated);
            admin::describe_configs_of(&view, body, is_new).into()
        } else {
            cluster_response(&view, scan.answer.version, request)
        };
        scan.answer.add(&mut self.connections, response, is_last);
    }

    fn answer_metadata(&mut self, scan: &mut Scan, body: &MetadataRequest<'_>) {
        let is_last = scan.rest.is_empty();
        let image = scan.image.clone();
        let view = self.common.view(&image, &self.offline, self.number);
        let (response, to_create) = admin::metadata(&view, scan.answer.version, body);
        scan.answer.add(&mut self.connections, response.into(), is_last);
        self.create_topics(scan.answer.request, to_create);
    }

    /// Drops the long request of a closed connection.
    pub(super) fn forget_scan(&mut self, id: ConnectionId) {
        let is_of = |scan: &mut Scan| scan.answer.request.connection == id.0;
        if self.scans.under_way.take_if(is_of).is_some() {
            self.count_scan();
        }
        self.scans.waiting.retain(|waiting| *waiting != id);
    }
}

fn rest_of(version: i16, request: Request<'_>) -> Option<Rest> {
    match request {
        Request::ListGroups(body) => Some(Rest::Groups(ListingOfSlots::new(&body))),
        Request::Metadata(body) if admin::asks_for_all(version, &body) => {
            let all = MetadataRequest { topics: None, allow_auto_topic_creation: false, ..body };
            Some(Rest::Topics(String::new(), all))
        }
        Request::ListConfigResources(body) => {
            Some(Rest::Resources(ResourceList::new(version, &body)))
        }
        request => Items::new(version, request).map(Rest::Items),
    }
}

#[cfg(test)]
mod tests;
