//! The answer to a long request, as far as it has come: elements of its list, written already.

use muster_codec::limits::ANSWER_BYTES_MAX;
use muster_codec::messages::*;
use muster_codec::{AnswerBudget, ErrorCode, Field, Response, Version};

/// What an element takes that tells of nothing but an error: budget for it is kept for each item.
const REFUSED_BYTES: usize = 96;

#[derive(Debug)]
pub(crate) struct Gathered {
    layout: Version,
    budget: AnswerBudget,
    pub(crate) count: usize,
    pub(crate) elements: Vec<u8>,
}

impl Gathered {
    /// The answer to this number of items, beside which `held` bytes are held for the request.
    pub(crate) fn new(layout: Version, items: usize, held: usize) -> Self {
        let kept = held + items * REFUSED_BYTES;
        let budget = AnswerBudget::new(ANSWER_BYTES_MAX.saturating_sub(kept));
        Self { layout, budget, count: 0, elements: Vec::new() }
    }

    /// Takes the elements out of a response, which is what remains. Those that there is no budget
    /// for become UNKNOWN_SERVER_ERROR.
    pub(crate) fn add(&mut self, response: &mut Response<'_>) {
        const TOO_LARGE: i16 = ErrorCode::UnknownServerError as i16;
        match response {
            Response::ListGroups(body) => self.add_all(&mut body.groups, |group| group),
            Response::DescribeGroups(body) => {
                self.add_all(&mut body.groups, |group| DescribedGroup {
                    error_code: TOO_LARGE,
                    group_id: group.group_id,
                    ..Default::default()
                });
            }
            Response::ConsumerGroupDescribe(body) => {
                self.add_all(&mut body.groups, |group| DescribedConsumerGroup {
                    error_code: TOO_LARGE,
                    group_id: group.group_id,
                    ..Default::default()
                });
            }
            Response::DeleteGroups(body) => self.add_all(&mut body.results, |result| result),
            Response::OffsetFetch(body) => {
                self.add_all(&mut body.groups, |group| OffsetFetchResponseGroup {
                    error_code: TOO_LARGE,
                    group_id: group.group_id,
                    ..Default::default()
                });
            }
            Response::DescribeConfigs(body) => {
                self.add_all(&mut body.results, |result| DescribeConfigsResult {
                    error_code: TOO_LARGE,
                    error_message: None,
                    configs: Vec::new(),
                    ..result
                });
            }
            Response::Metadata(body) => {
                self.add_all(&mut body.topics, |topic| MetadataResponseTopic {
                    error_code: TOO_LARGE,
                    partitions: Vec::new(),
                    ..topic
                });
            }
            Response::ListConfigResources(body) => {
                self.add_all(&mut body.config_resources, |resource| resource);
            }
            Response::FindCoordinator(body) => {
                self.add_all(&mut body.coordinators, |coordinator| coordinator);
            }
            _ => {}
        }
    }

    fn add_all<'r, T: Field<'r> + Default>(&mut self, list: &mut Vec<T>, refused: impl Fn(T) -> T) {
        for element in std::mem::take(list) {
            let fits = self.budget.take(&element);
            let element = if fits { element } else { refused(element) };
            element.write(&mut self.elements, self.layout);
            self.count += 1;
        }
    }

    /// Forgets all elements: the answer is an error alone.
    pub(crate) fn clear(&mut self) {
        self.elements.clear();
        self.count = 0;
    }

    pub(crate) fn held(&self) -> usize {
        self.elements.capacity()
    }
}

/// How many bytes of a response stand behind its list, but for tagged fields.
pub(crate) fn bytes_behind_list(version: i16, response: &Response<'_>) -> usize {
    match response {
        // What may be done with the cluster; later an error.
        Response::Metadata(_) if (8..=10).contains(&version) => size_of::<i32>(),
        Response::Metadata(_) if version >= 13 => size_of::<i16>(),
        _ => 0,
    }
}
