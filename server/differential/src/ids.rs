//! Maps the ids of Kafka to those of muster. When two new ids occur in the same place, they are
//! bound to each other. From then on, each must occur exactly where the other does.

use muster_codec::Request;
use muster_codec::messages::ProduceRequest;
use muster_codec::record_batch;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug, Clone, Default)]
pub struct Ids {
    of_kafka: HashMap<Id, Id>,
    of_muster: HashMap<Id, Id>,
}

/// An id in JSON. It has a kind, because numbers of different kinds may be equal by chance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Id {
    Text(String),
    Producer(i64),
    Session(i64),
    Coordinator(i64),
}

impl Ids {
    /// Whether a field contains an id that the server generates.
    pub fn is_id(field: &str) -> bool {
        matches!(
            field,
            "memberId"
                | "leader"
                | "clusterId"
                | "topicId"
                | "producerId"
                | "sessionId"
                | "coordinatorEpoch"
        )
    }

    /// Whether two values are bound to each other. If both are new ids, binds them.
    pub fn same(&mut self, field: &str, kafka: &Value, muster: &Value) -> bool {
        let (Some(kafka), Some(muster)) = (id(field, kafka), id(field, muster)) else {
            return kafka == muster;
        };
        match (self.of_kafka.get(&kafka), self.of_muster.get(&muster)) {
            (None, None) => {
                self.of_kafka.insert(kafka.clone(), muster.clone());
                self.of_muster.insert(muster, kafka);
                true
            }
            (Some(bound), _) => *bound == muster,
            (None, Some(_)) => false,
        }
    }

    /// The key of an element with this id, in a list of Kafka. The element of muster's list to
    /// which it corresponds has the same key, by [`Self::muster_key`].
    pub fn kafka_key(&self, field: &str, value: &Value) -> String {
        key(&self.of_kafka, field, value, |bound| bound)
    }

    pub fn muster_key(&self, field: &str, value: &Value) -> String {
        let itself = id(field, value);
        key(&self.of_muster, field, value, |_| itself.as_ref().unwrap_or(&NO_ID))
    }

    /// Converts a request that went to Kafka: the result has muster's ids.
    ///
    /// # Errors
    /// The request cannot be represented in JSON.
    pub fn to_muster(
        &mut self,
        request: &Request<'static>,
    ) -> serde_json::Result<Request<'static>> {
        let mut body = serde_json::to_value(request)?;
        self.bind_clients("", &body);
        self.replace("", &mut body);
        let mut request: Request<'static> = serde_json::from_value(body)?;
        if let Request::Produce(body) = &mut request {
            self.replace_producers(body);
        }
        Ok(request)
    }

    /// Binds each id that no server generated to itself.
    fn bind_clients(&mut self, field: &str, value: &Value) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, v)| self.bind_clients(name, v)),
            Value::Array(list) => list.iter().for_each(|element| self.bind_clients(field, element)),
            Value::String(_) if Self::is_id(field) => {
                let known = id(field, value).is_some_and(|id| self.of_kafka.contains_key(&id));
                if !known {
                    self.same(field, value, value);
                }
            }
            _ => {}
        }
    }

    fn replace(&self, field: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(name, v)| self.replace(name, v)),
            Value::Array(list) => list.iter_mut().for_each(|element| self.replace(field, element)),
            _ => match id(field, value).and_then(|id| self.of_kafka.get(&id)) {
                Some(Id::Text(text)) => *value = text.clone().into(),
                Some(Id::Producer(number) | Id::Session(number) | Id::Coordinator(number)) => {
                    *value = (*number).into();
                }
                None => {}
            },
        }
    }

    /// Replaces the producer id in the first batch of each partition, if the batch is valid.
    fn replace_producers(&self, body: &mut ProduceRequest<'static>) {
        let partitions = body.topic_data.iter_mut().flat_map(|topic| &mut topic.partition_data);
        for records in partitions.filter_map(|partition| partition.records.as_mut()) {
            let batch = records.0.to_mut();
            let Ok(mut header) = record_batch::validate(batch) else { continue };
            if let Some(Id::Producer(id)) = self.of_kafka.get(&Id::Producer(header.producer_id)) {
                header.producer_id = *id;
                let end = header.total_len();
                header.write(&mut batch[..end]);
            }
        }
    }
}

const NO_ID: Id = Id::Producer(-1);

/// The id in a value. Any text may be an id: in requests, a text is replaced if it is a bound id.
fn id(field: &str, value: &Value) -> Option<Id> {
    const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";
    match value {
        Value::String(text) if text.is_empty() || text == ZERO => None,
        Value::String(text) => Some(Id::Text(text.clone())),
        Value::Number(number) => match (field, number.as_i64()?) {
            ("producerId" | "producerIdFilters" | "v3AndBelowProducerId", number)
                if number >= 0 =>
            {
                Some(Id::Producer(number))
            }
            ("sessionId", number) if number != 0 => Some(Id::Session(number)),
            ("coordinatorEpoch", number) if number >= 0 => Some(Id::Coordinator(number)),
            _ => None,
        },
        _ => None,
    }
}

/// The key of an element. All ids that are not bound have the same key.
fn key<'a>(
    bound: &'a HashMap<Id, Id>,
    field: &str,
    value: &Value,
    of: impl FnOnce(&'a Id) -> &'a Id,
) -> String {
    if !Ids::is_id(field) {
        return value.to_string();
    }
    match id(field, value).map(|id| bound.get(&id)) {
        None => value.to_string(),
        Some(None) => "?".into(),
        Some(Some(other)) => format!("{:?}", of(other)),
    }
}
