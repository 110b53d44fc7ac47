//! The quotas, configs and topics of a case. A connection without a quota sets them.

use super::client::Client;
use crate::wire::Ask;
use muster_codec::Request;
use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use std::io;
use std::thread;
use std::time::Duration;

/// The time that Kafka's broker may need to apply a change after the change was acknowledged.
const TAKES_EFFECT: Duration = Duration::from_millis(500);

/// An administrator of one server.
pub(crate) struct Admin<'a> {
    address: &'a str,
    run: u64,
    client: Client,
}

impl<'a> Admin<'a> {
    pub(crate) fn new(address: &'a str, run: u64) -> io::Result<Self> {
        Ok(Self { address, run, client: Client::connect(address, "admin")? })
    }

    /// A name that only this run uses.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}-{}", self.run)
    }

    /// A client whose id only this run uses.
    pub(crate) fn client(&self, client_id: &str) -> io::Result<Client> {
        Client::connect(self.address, &self.name(client_id))
    }

    /// Sets or removes a quota of a client id of this run, or of an address.
    pub(crate) fn quota(
        &mut self,
        entity_type: &'static str,
        name: &str,
        key: &'static str,
        value: Option<f64>,
    ) -> io::Result<()> {
        let name = if entity_type == "ip" { name.to_owned() } else { self.name(name) };
        let entity =
            QuotaEntity { entity_type: entity_type.into(), entity_name: Some(name.into()) };
        let op =
            QuotaOp { key: key.into(), value: value.unwrap_or_default(), remove: value.is_none() };
        let entries = vec![QuotaAlteration { entity: vec![entity], ops: vec![op] }];
        self.change(1, AlterClientQuotasRequest { entries, validate_only: false }.into())
    }

    /// Sets or removes a config of all brokers.
    pub(crate) fn config(
        &mut self,
        name: &'static str,
        value: Option<&'static str>,
    ) -> io::Result<()> {
        let config_operation = i8::from(value.is_none());
        let value = value.map(Into::into);
        let configs = vec![AlterableConfig { name: name.into(), config_operation, value }];
        let resources =
            vec![AlterConfigsResource { resource_type: 4, resource_name: "".into(), configs }];
        self.change(1, IncrementalAlterConfigsRequest { resources, validate_only: false }.into())
    }

    /// Creates a topic of this run.
    pub(crate) fn topic(&mut self, name: &str, partitions: i32) -> io::Result<()> {
        let name = self.name(name);
        self.change(5, create(&[name], partitions, false))
    }

    fn change(&mut self, version: i16, request: Request<'static>) -> io::Result<()> {
        let body = self.client.call(&Ask::new(version, request))?;
        let lists = ["entries", "responses", "topics"];
        let results = lists.iter().filter_map(|list| body[*list].as_array()).flatten();
        if let Some(failed) = results.clone().find(|it| it["errorCode"] != 0) {
            return Err(io::Error::other(failed.to_string()));
        }
        thread::sleep(TAKES_EFFECT);
        Ok(())
    }
}

/// A request that creates topics with this number of partitions each.
pub(crate) fn create(names: &[String], partitions: i32, validate_only: bool) -> Request<'static> {
    let topic = |name: &String| CreatableTopic {
        name: name.clone().into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = names.iter().map(topic).collect();
    CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only }.into()
}

/// A request that adds partitions up to this number.
pub(crate) fn create_partitions(names: &[String], count: i32) -> Request<'static> {
    let topic = |name: &String| CreatePartitionsTopic {
        name: name.clone().into(),
        count,
        assignments: None,
    };
    let topics = names.iter().map(topic).collect();
    CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only: false }.into()
}

/// A request that deletes topics. Newer versions have another field for the names.
pub(crate) fn delete(names: &[String], is_new: bool) -> Request<'static> {
    let state =
        |name: &String| DeleteTopicState { name: Some(name.clone().into()), ..Default::default() };
    let names_of = |of: bool| names.iter().filter(move |_| of);
    DeleteTopicsRequest {
        topics: names_of(is_new).map(state).collect(),
        topic_names: names_of(!is_new).map(|name| name.clone().into()).collect(),
        timeout_ms: 10_000,
    }
    .into()
}

/// A batch of one record of this size.
pub(crate) fn batch(bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(1_000, &(&b"key"[..], Some(&vec![b'x'; bytes][..])));
    builder.seal(0, -1).to_vec()
}
