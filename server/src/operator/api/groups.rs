//! The list of groups: sorted by lag, id or members; filtered by kind, state and part of the id.

use super::answer::{Answer, Refused, no_survey};
use super::page::Page;
use crate::operator::{GroupLag, Operator, Query, Survey};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

pub(super) fn answer(operator: &Operator, query: &Query) -> Result<Value, Refused> {
    let page = Page::read(query)?;
    let survey = operator.survey().ok_or_else(no_survey)?;
    let wanted = wanted(query, page);
    let (found, rows) = match query.text("sort").unwrap_or("lag") {
        "lag" => page.of(by_lag(&survey).filter(|group| wanted(group)), id),
        "id" => page.of(survey.groups.iter().filter(|group| wanted(group)), id),
        "members" => page.of(by_members(&survey).into_iter().filter(|group| wanted(group)), id),
        _ => return Err(Answer::malformed("sort is lag, id or members")),
    };
    Ok(json!({
        "age_ms": survey.began.elapsed().as_millis() as u64,
        "took_ms": survey.took.as_millis() as u64,
        "all": survey.groups.len(),
        "found": found,
        "from": page.from,
        "lag_unknown": survey.left_out,
        "counts": counts(&survey),
        "groups": rows.into_iter().map(row).collect::<Vec<_>>(),
    }))
}

/// Whether a group matches the filters of a request.
fn wanted<'q>(query: &'q Query, page: Page<'q>) -> impl Fn(&GroupLag) -> bool + use<'q> {
    let (kind, state) = (query.text("kind"), query.text("state"));
    move |group| {
        kind.is_none_or(|kind| group.kind.eq_ignore_ascii_case(kind))
            && state.is_none_or(|state| group.state.eq_ignore_ascii_case(state))
            && page.wants(&group.id)
    }
}

fn id(group: &GroupLag) -> &str {
    &group.id
}

fn by_lag(survey: &Survey) -> impl Iterator<Item = &GroupLag> {
    survey.by_lag.iter().map(|place| &survey.groups[*place as usize])
}

fn by_members(survey: &Survey) -> Vec<&GroupLag> {
    let mut groups: Vec<&GroupLag> = survey.groups.iter().collect();
    groups.sort_by_key(|group| Reverse(group.members));
    groups
}

fn counts(survey: &Survey) -> Value {
    let mut kinds = Map::new();
    for ((kind, state), count) in &survey.counts {
        let states = kinds.entry(*kind).or_insert_with(|| json!({}));
        states[*state] = json!(count);
    }
    Value::Object(kinds)
}

fn row(group: &GroupLag) -> Value {
    let GroupLag { id, shard, kind, state, members, partitions, uncommitted, lag, .. } = group;
    json!({
        "id": &**id,
        "shard": shard,
        "kind": kind,
        "state": state,
        "members": members,
        "partitions": partitions,
        "uncommitted": uncommitted,
        "lag": lag,
    })
}
