//! The shard as a broker of its cluster: its number, its configs, the image of the cluster, and
//! the offline partitions that all shards, this one included, have reported.

use super::{CertificateOrder, Command, Common, ListenerIndex};
use crate::cluster::{
    Brokers, BrokersOfCluster, ClusterImage, Leaders, Node, OfflineList, OfflinePartitions, View,
    endpoints_of,
};
use crate::config::{BROKER_RESOURCE, Config, ShardTls};
use crate::mailbox::{ToBroker, ToController};
use crate::placement::CONTROLLER;
use crate::security::acls::AclRules;
use muster_faults::Fault;
use muster_runtime::replicas::{Leading, NodeId};
use std::sync::Arc;
use tracing::warn;

/// A shard's knowledge of its cluster.
pub(super) struct Broker {
    number: u32,
    common: Common,
    image: Arc<ClusterImage>,
    offline: OfflinePartitions,
    leaders: Leaders,
    /// The other nodes whose addresses are known, in the order of their ids.
    others: Vec<Node>,
    /// The server's config with altered configs applied.
    config: Config,
    /// None if there is no authorizer.
    acl_rules: Option<Arc<AclRules>>,
}

impl Broker {
    pub(super) fn new(number: u32, common: Common, image: Arc<ClusterImage>) -> Self {
        let config = common.config.with_dynamic(&image, number);
        let acl_rules = config.has_authorizer().then(|| Arc::new(config.acl_rules()));
        let (offline, leaders) = (OfflinePartitions::default(), Leaders::default());
        let others = common.nodes.iter().flat_map(|it| &*it.others).cloned().collect();
        Self { number, common, image, offline, leaders, others, config, acl_rules }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn image(&self) -> &Arc<ClusterImage> {
        &self.image
    }

    /// The server's config with altered configs applied.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// The rules beside the ACLs; None if there is no authorizer.
    pub(super) fn acl_rules(&self) -> Option<&Arc<AclRules>> {
        self.acl_rules.as_ref()
    }

    /// The input of decisions and answers about the cluster.
    pub(super) fn view(&self) -> View<'_> {
        self.view_of(&self.image)
    }

    /// The input of decisions and answers about the cluster, for the clients of a listener.
    pub(super) fn view_on(&self, listener: ListenerIndex) -> View<'_> {
        View { brokers: self.brokers(listener), ..self.view() }
    }

    /// The input of decisions and answers about the cluster, for another image.
    pub(super) fn view_of<'v>(&'v self, image: &'v ClusterImage) -> View<'v> {
        let view = self.common.view(image, &self.offline, self.number);
        View { brokers: self.brokers(ListenerIndex::FIRST), ..view }
    }

    fn brokers(&self, listener: ListenerIndex) -> Brokers<'_> {
        let Common { endpoints, nodes, .. } = &self.common;
        match nodes {
            None => Brokers::alone(endpoints.of(listener)),
            Some(nodes) => {
                let (own, ids, others) = (nodes.own, &*nodes.ids, &*self.others);
                let cluster = BrokersOfCluster { own, ids, others, leaders: &self.leaders };
                Brokers::of_cluster(endpoints, cluster, listener)
            }
        }
    }

    /// Takes a new image and returns the previous image; None if the new image is older.
    ///
    /// An older image arrives if shard 0 sent it before it was loaded again. Shard 0 may since have
    /// read later changes from its log. If the older image were taken, partitions of topics that
    /// these changes created would be removed.
    pub(super) fn set_image(&mut self, image: Arc<ClusterImage>) -> Option<Arc<ClusterImage>> {
        if image.is_older_than(&self.image) && !Fault::StaleImage.is_injected() {
            return None;
        }
        self.config = self.common.config.with_dynamic(&image, self.number);
        Some(std::mem::replace(&mut self.image, image))
    }

    /// Reports to the controller which version of the ACLs this shard applies.
    pub(super) fn report_access(&self, out: &mut Vec<Command>) {
        self.report_access_of(self.image.access_version(), out);
    }

    /// Reports to the controller that this shard, which stops, has no clients any longer.
    pub(super) fn report_no_access(&self, out: &mut Vec<Command>) {
        self.report_access_of(i64::MAX, out);
    }

    fn report_access_of(&self, version: i64, out: &mut Vec<Command>) {
        let message = ToController::AccessTaken { by: self.number, version };
        out.push(Command::mail(CONTROLLER, message));
    }

    /// Orders this shard's certificates from the certificate thread, after clients altered configs.
    pub(super) fn order_certificates(&self, out: &mut Vec<Command>) {
        let replacements = self.config.replaced_tls(&self.common.config);
        let order = ShardTls { shard: self.number, replacements };
        out.push(Command::Certificates(CertificateOrder::Take(order)));
    }

    /// Whether the configs of this shard differ from those in an earlier image.
    pub(super) fn is_altered_since(&self, before: &ClusterImage) -> bool {
        let name = self.number.to_string();
        let of = |image| ClusterImage::configs(image, BROKER_RESOURCE, &name);
        of(before) != of(&self.image)
    }

    /// Takes the report of a shard.
    pub(super) fn set_offline(&mut self, from: u32, partitions: OfflineList) {
        self.offline.set(from, partitions);
    }

    /// Reports partitions that could not be opened to all shards, this one included, so that all of
    /// them answer Metadata alike.
    pub(super) fn report_offline(&self, partitions: &OfflineList, out: &mut Vec<Command>) {
        if !partitions.is_empty() {
            out.extend(self.to_all(partitions));
        }
    }

    /// The reports for a shard that is loaded again: an empty report to all shards, and the reports
    /// of the other shards to the new shard.
    pub(super) fn leave_offline(&self) -> Vec<Command> {
        let of = |(from, partitions): (u32, &OfflineList)| {
            if from == self.number {
                return self.to_all(&OfflineList::default()).collect();
            }
            let message = ToBroker::Offline { from, partitions: partitions.clone() };
            vec![Command::mail(self.number, message)]
        };
        self.offline.iter().flat_map(of).collect()
    }

    /// Takes news of who leads slots of this shard, and reports them to the other shards.
    pub(super) fn report_leaders(&mut self, mut news: Vec<Leading>, out: &mut Vec<Command>) {
        news.retain(|it| self.leaders.set(*it));
        if news.is_empty() {
            return;
        }
        let (own, news) = (self.number, Arc::<[_]>::from(news));
        let others = (0..self.common.placement.shards).filter(|it| *it != own);
        out.extend(others.map(|to| Command::mail(to, ToBroker::Leading(Arc::clone(&news)))));
    }

    /// Takes news of who leads slots of another shard.
    pub(super) fn take_leaders(&mut self, news: &[Leading]) {
        for leading in news {
            self.leaders.set(*leading);
        }
    }

    /// The news of other shards about their slots, for the successor of this one.
    pub(super) fn leave_leaders(&self) -> Option<Command> {
        let Self { number, leaders, common, .. } = self;
        let is_own = |it: &Leading| common.placement.log_slot_shard(it.slot) == *number;
        let heard: Arc<[_]> = leaders.all().filter(|it| !is_own(it)).collect();
        (!heard.is_empty()).then(|| Command::mail(*number, ToBroker::Leading(heard)))
    }

    /// Takes what a node says of itself to clients, and reports it to the other shards.
    pub(super) fn describe(
        &mut self,
        id: NodeId,
        shards: u16,
        clients: &[u8],
        out: &mut Vec<Command>,
    ) {
        let shards = u32::from(shards);
        let listeners = self.common.config.served.iter().flat_map(|it| &it.listeners);
        let names = listeners.map(|it| it.name.as_str());
        let Some(endpoints) = endpoints_of(clients, shards, names) else {
            warn!(target: "peers", "node {}: its addresses for clients cannot be read", id.0);
            return;
        };
        let node = Node { id, shards, endpoints };
        let others = (0..self.common.placement.shards).filter(|it| *it != self.number);
        out.extend(others.map(|to| Command::mail(to, ToBroker::Node(node.clone()))));
        self.set_node(node);
    }

    /// Takes the addresses of another node.
    pub(super) fn set_node(&mut self, node: Node) {
        match self.others.binary_search_by_key(&node.id, |it| it.id) {
            Ok(place) => self.others[place] = node,
            Err(place) => self.others.insert(place, node),
        }
    }

    /// The addresses of other nodes, for the successor of this shard.
    pub(super) fn leave_nodes(&self) -> impl Iterator<Item = Command> {
        self.others.iter().map(|it| Command::mail(self.number, ToBroker::Node(it.clone())))
    }

    fn to_all(&self, partitions: &OfflineList) -> impl Iterator<Item = Command> + use<> {
        let (from, partitions) = (self.number, partitions.clone());
        (0..self.common.placement.shards).map(move |to| {
            let message = ToBroker::Offline { from, partitions: partitions.clone() };
            Command::mail(to, message)
        })
    }
}
