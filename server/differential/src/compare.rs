//! Compares two answers field by field.

use crate::batches;
use crate::ids::Ids;
use crate::wire::Answer;
use crate::world;
use muster_codec::Bytes;
use muster_codec::consumer_protocol::ConsumerProtocolAssignment;
use serde_json::Value;

/// A field in which two answers differ.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Difference {
    /// The path of field names, joined by dots. If an array has equal elements in another order,
    /// its name is followed by `[order]`. If only one of two arrays has an element, the array's
    /// name is followed by `[]`.
    pub field: String,
    /// The array elements that contain the field, from the outermost to the innermost: the name and
    /// other identifying fields of each.
    pub element: String,
    pub kafka: String,
    pub muster: String,
}

/// The differences between two answers. `own` is the beginning of the names of this history.
pub fn answers(kafka: &Answer, muster: &Answer, ids: &mut Ids, own: &str) -> Vec<Difference> {
    let mut comparison = Comparison { ids, own, element: String::new(), found: Vec::new() };
    match (kafka, muster) {
        (Answer::Body(kafka), Answer::Body(muster)) => comparison.values("", "", kafka, muster),
        _ if kafka == muster => {}
        _ => comparison.differ("", &outline(kafka), &outline(muster)),
    }
    comparison.found
}

fn outline(answer: &Answer) -> Value {
    match answer {
        Answer::Body(_) => "an answer".into(),
        Answer::Unreadable(error) => format!("unreadable: {error}").into(),
        Answer::Closed => "closed".into(),
    }
}

struct Comparison<'a> {
    ids: &'a mut Ids,
    own: &'a str,
    element: String,
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn values(&mut self, path: &str, field: &str, kafka: &Value, muster: &Value) {
        match (kafka, muster) {
            (Value::Object(ours), Value::Object(theirs)) => {
                let is_refused = ours.get("errorCode").is_some_and(|code| *code != 0);
                // The id of the member itself is compared first. If it is new, it is noted, and the
                // comparison of the leader's id, which may be the same, needs it.
                let mut fields: Vec<_> = ours.iter().collect();
                fields.sort_by_key(|(name, _)| *name != "memberId");
                for (name, value) in fields {
                    let other = theirs.get(name).unwrap_or(&Value::Null);
                    // An answer with an error has zeros instead of an id.
                    if is_refused && name == "producerId" && value == other {
                        continue;
                    }
                    let [value, other] = [(ours, value), (theirs, other)].map(|(of, it)| {
                        if name == "abortedTransactions" { seen(of, it) } else { it.clone() }
                    });
                    self.values(&joined(path, name), name, &value, &other);
                }
            }
            (Value::Array(ours), Value::Array(theirs)) => self.arrays(path, field, ours, theirs),
            _ if self.same(field, kafka, muster) => {}
            _ => self.differ(path, kafka, muster),
        }
    }

    fn differ(&mut self, path: &str, kafka: &Value, muster: &Value) {
        let (kafka, muster) = (short(path, kafka), short(path, muster));
        let element = self.element.clone();
        self.found.push(Difference { field: path.to_owned(), element, kafka, muster });
    }

    fn same(&mut self, field: &str, kafka: &Value, muster: &Value) -> bool {
        match field {
            // Each server has its own values, and clients must not rely on them.
            "throttleTimeMs" | "port" | "documentation" | "finalizedFeaturesEpoch" => true,
            // Each server has its own texts.
            "errorMessage" | "batchIndexErrorMessage" => kafka.is_null() == muster.is_null(),
            "statusDetail" => without_words(kafka) == without_words(muster),
            "logAppendTimeMs" => (kafka.as_i64() < Some(0)) == (muster.as_i64() < Some(0)),
            "transactionStartTimeMs" => (kafka.as_i64() < Some(0)) == (muster.as_i64() < Some(0)),
            "timestamp" | "lastTimestamp" => kafka == muster || is_now(kafka) && is_now(muster),
            "records" => batches::same(kafka, muster, self.ids),
            "assignment" | "memberAssignment" if kafka.is_string() => {
                kafka == muster
                    || partitions(kafka).is_some_and(|it| Some(it) == partitions(muster))
            }
            _ if Ids::is_id(field) => self.ids.same(field, kafka, muster),
            _ => kafka == muster,
        }
    }

    /// Compares each element of an array with the element of the other array that has the same key.
    fn arrays(&mut self, path: &str, field: &str, kafka: &[Value], muster: &[Value]) {
        let kafka: Vec<&Value> = kafka.iter().filter(|one| !self.is_foreign(one)).collect();
        let muster: Vec<&Value> = muster.iter().filter(|one| !self.is_foreign(one)).collect();
        let keys: Vec<String> =
            muster.iter().map(|one| key(one, &|f, v| self.ids.muster_key(f, v), field)).collect();
        let mut taken = vec![false; keys.len()];
        let mut order = Vec::new();
        for one in &kafka {
            let wanted = key(one, &|f, v| self.ids.kafka_key(f, v), field);
            let same = (0..keys.len()).filter(|at| !taken[*at] && keys[*at] == wanted);
            // If several elements have the key, one with the same error is preferred, then one with
            // the same id.
            let differs = |at: usize, field: &str| muster[at].get(field) != one.get(field);
            let found = same.min_by_key(|at| (differs(*at, "errorCode"), differs(*at, "topicId")));
            let Some(at) = found else {
                self.within(one, |it| it.differ(&format!("{path}[]"), one, &Value::Null));
                continue;
            };
            taken[at] = true;
            order.push(at);
            self.within(one, |it| it.values(path, field, one, muster[at]));
        }
        for (at, _) in taken.iter().enumerate().filter(|(_, taken)| !**taken) {
            let one = muster[at];
            self.within(one, |it| it.differ(&format!("{path}[]"), &Value::Null, one));
        }
        if !order.is_sorted() {
            let names = |list: &[&Value]| list.iter().map(|one| name(one)).collect::<Value>();
            self.differ(&format!("{path}[order]"), &names(&kafka), &names(&muster));
        }
    }

    /// Compares parts of an element, and notes the element in their differences.
    fn within(&mut self, element: &Value, compare: impl FnOnce(&mut Self)) {
        let outer = self.element.len();
        self.element += &own_key(element);
        compare(self);
        self.element.truncate(outer);
    }

    /// Whether an element belongs to another history, or is one of [`CREATED_WITH_FIRST_USE`].
    fn is_foreign(&self, element: &Value) -> bool {
        let names = ["name", "topic", "groupId", "resourceName", "transactionalId"];
        let name = names.iter().find_map(|field| element.get(field)?.as_str());
        name.is_some_and(|name| {
            CREATED_WITH_FIRST_USE.contains(&name)
                || world::owner(name).is_some_and(|it| it != self.own)
        })
    }
}

/// The topics of transactions and share state. Kafka creates each when any history first needs it;
/// muster always has them.
const CREATED_WITH_FIRST_USE: [&str; 2] = ["__transaction_state", "__share_group_state"];

/// The fields that distinguish an element from its neighbours.
const IDENTITY: &[&str] = &[
    "name",
    "topic",
    "topicName",
    "topicId",
    "groupId",
    "transactionalId",
    "producerId",
    "partitionIndex",
    "partition",
    "index",
    "resourceType",
    "resourceName",
    "apiKey",
    "memberId",
    "key",
    "brokerId",
    "nodeId",
    "subtopologyId",
    "statusCode",
    "userEndpoint",
];

/// The key of an element, with the ids as they are. (They need not match those of the other
/// server.)
fn own_key(element: &Value) -> String {
    key(element, &|_, value| value.to_string(), "")
}

fn key(element: &Value, of: &dyn Fn(&str, &Value) -> String, field: &str) -> String {
    let Value::Object(fields) = element else { return of(field, element) };
    let is_named = |name: &&str| fields.get(*name).is_some_and(|it| it.as_str() > Some(""));
    // An answer with an error has the name, but not always the id.
    let has_name = ["name", "topic", "topicName"].iter().any(is_named);
    let is_left_out = |name: &&str| match *name {
        "topicId" => has_name,
        "producerId" => fields.contains_key("transactionalId"),
        _ => false,
    };
    let identity = IDENTITY.iter().filter(|name| !is_left_out(name));
    let parts = identity.filter_map(|name| Some((name, fields.get(*name)?)));
    parts.map(|(name, value)| format!("{name}={} ", of(name, value))).collect()
}

fn name(element: &Value) -> Value {
    let mut fields = IDENTITY.iter().filter_map(|name| element.get(name));
    fields.next().unwrap_or(element).clone()
}

fn joined(path: &str, name: &str) -> String {
    // The name of the API, which is an answer's only field, is left out of the path.
    if path.is_empty() && name.starts_with(char::is_uppercase) {
        return String::new();
    }
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A value for a report, without parts that differ in each history.
fn short(path: &str, value: &Value) -> String {
    let field = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::String(text) if text.is_empty() => "\"\"".into(),
        Value::String(_) if Ids::is_id(field) => "<id>".into(),
        Value::String(_) if field == "errorMessage" => "<text>".into(),
        Value::String(_) if field == "records" => batches::outline(value),
        Value::String(text) if text.len() > 200 => format!("<{} characters>", text.len()),
        Value::Object(_) | Value::Array(_) => {
            let text = value.to_string();
            text.chars().take(200).collect()
        }
        _ => value.to_string().replace('"', ""),
    }
}

/// The detail of a status, without the reason why topics were not created.
fn without_words(detail: &Value) -> Option<&str> {
    detail.as_str()?.split("; Creation failed: ").next()
}

/// Removes aborted transactions that begin after an answer's records. Kafka may add such
/// transactions, because it searches up to the end of a segment.
fn seen(partition: &serde_json::Map<String, Value>, aborted: &Value) -> Value {
    let end = partition.get("records").and_then(batches::end);
    let begins_before = |one: &&Value| one["firstOffset"].as_i64() < end;
    let list = aborted.as_array();
    list.map_or(Value::Null, |list| list.iter().filter(begins_before).cloned().collect())
}

/// Whether a server's clock set this time. Times that clients set in requests are always earlier.
fn is_now(time: &Value) -> bool {
    const AFTER_REQUESTS: i64 = 1_710_000_000_000;
    time.as_i64() > Some(AFTER_REQUESTS)
}

/// The partitions of a member's assignment, sorted, because Kafka has the topics in the order of a
/// hash table. None if the bytes are not an assignment.
fn partitions(value: &Value) -> Option<Vec<(String, Vec<i32>)>> {
    let bytes: Bytes<'_> = serde_json::from_value(value.clone()).ok()?;
    let assignment = ConsumerProtocolAssignment::read(&bytes).ok()?;
    let topics = assignment.assigned_partitions.into_iter();
    let mut named: Vec<_> =
        topics.map(|topic| (topic.topic.into_owned(), topic.partitions)).collect();
    named.sort();
    Some(named)
}
