//! The list of topics, and the partitions of one topic.

use super::answer::{Answer, Refused, late, no_survey};
use super::bounds::bounds;
use super::page::Page;
use crate::cluster::{Topic, leader};
use crate::operator::shards::Shards;
use crate::operator::{Operator, Query, Survey};
use crate::partitions::PartitionId;
use serde_json::{Value, json};

pub(super) fn answer(operator: &Operator, query: &Query) -> Result<Value, Refused> {
    let page = Page::read(query)?;
    let survey = operator.survey().ok_or_else(no_survey)?;
    // The topics of users come first.
    let of_kind = |is_internal| {
        let all = survey.image.all_topics_from("");
        all.filter(move |topic| topic.is_internal() == is_internal)
    };
    let all = of_kind(false).chain(of_kind(true));
    let (found, rows) = page.of(all.filter(|topic| page.wants(&topic.name)), |topic| &topic.name);
    Ok(json!({
        "age_ms": survey.began.elapsed().as_millis() as u64,
        "all": survey.image.topic_count(),
        "found": found,
        "from": page.from,
        "topics": rows.into_iter().map(|topic| row(&survey, topic)).collect::<Vec<_>>(),
    }))
}

fn row(survey: &Survey, topic: &Topic) -> Value {
    json!({
        "name": &*topic.name,
        "id": topic.id.to_string(),
        "partitions": topic.partitions,
        "internal": topic.is_internal(),
        "records": survey.records(topic.id),
    })
}

pub(super) fn answer_one(shards: &Shards, name: &str, query: &Query) -> Result<Value, Refused> {
    let Page { from, rows, .. } = Page::read(query)?;
    let image = shards.image().ok_or_else(|| late(0))?;
    let topic = image.topic(name).ok_or_else(|| Answer::unknown("there is no such topic"))?;
    let from = i32::try_from(from).unwrap_or(i32::MAX);
    let end = from.saturating_add(rows as i32).min(topic.partitions);
    let wanted = (from..end).map(|index| (topic, index));
    let partitions = bounds(shards, wanted.clone())?;
    let partition = |(topic, index): (&Topic, i32)| {
        let found = partitions.get(&PartitionId { topic: topic.id, index }).copied().flatten();
        json!({
            "partition": index,
            "shard": leader(topic, index, shards.placement()),
            "start": found.map(|it| it.log_start),
            "end": found.map(|it| it.high_watermark),
        })
    };
    Ok(json!({
        "name": &*topic.name,
        "id": topic.id.to_string(),
        "internal": topic.is_internal(),
        "partitions": topic.partitions,
        "shows_records": shards.config().admin_records && !topic.is_internal(),
        "from": from,
        "shown": wanted.map(partition).collect::<Vec<_>>(),
    }))
}
