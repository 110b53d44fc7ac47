//! The read API, `/api/v1/...`: JSON answers of limited size. No request changes anything.

mod answer;
mod bounds;
mod configs;
mod group;
mod groups;
mod page;
mod records;
mod share;
mod topics;

use super::shards::Shards;
use super::{Operator, Query, decoded};
use crate::calendar::civil_time;
use crate::clock::wall;
pub(crate) use answer::Answer;
use serde_json::{Value, json};

/// Answers a path below `/api/v1/`.
pub(super) fn answer(operator: &Operator, shards: &Shards, path: &str, query: &Query) -> Answer {
    let (collection, item) = path.split_once('/').map_or((path, None), |(a, b)| (a, Some(b)));
    let Some(item) = item.map_or(Some(None), |item| decoded(item).map(Some)) else {
        return Answer::malformed("the path is malformed");
    };
    let answered = match (collection, item) {
        ("groups", None) => groups::answer(operator, query),
        ("groups", Some(id)) => group::answer(shards, &id, query),
        ("topics", None) => topics::answer(operator, query),
        ("topics", Some(name)) => topics::answer_one(shards, &name, query),
        ("records", Some(name)) => records::answer(shards, &name, query),
        ("configs", None) => configs::answer(shards, query),
        _ => Err(Answer::unknown("there is no such path: see /api/v1/")),
    };
    answered.map_or_else(|refused| refused, |body| Answer::found(timed(body)))
}

/// Adds the current time to an answer.
pub(crate) fn timed(mut body: Value) -> Value {
    body["time"] = json!(civil_time(wall().0));
    body
}
