//! The unfinished answer to a long request: the encoded elements of its list so far, and the
//! positions that must be durable before it is sent.

use super::apis;
use crate::dispatch::authorization::Amendment;
use crate::net::{Amend, Connections, VisibleAt};
use muster_codec::header::EncodedList;
use muster_codec::limits::ANSWER_BYTES_MAX;
use muster_codec::{AnswerBudget, Field, Response, Version};
use muster_coordinator::RequestId;

/// The size of an element that has only an error. For each item this much of the budget is
/// reserved.
const REFUSED_BYTES: usize = 96;

/// The response of an API with long requests.
pub(super) trait LongAnswer<'r> {
    type Element: Field<'r> + Default;

    /// The list that is answered in parts.
    fn list(&mut self) -> &mut Vec<Self::Element>;

    /// Returns an error in place of an element for which too little of the budget is left. Returns
    /// the element itself if it is as small as an error, or if the list limits its own size.
    fn too_large(element: Self::Element) -> Self::Element;

    /// The encoded size of the fields that follow the list, without tagged fields.
    fn bytes_after_list(version: i16) -> usize;
}

#[derive(Debug)]
pub(super) struct Answer {
    request: RequestId,
    layout: Version,
    budget: AnswerBudget,
    count: usize,
    elements: Vec<u8>,
    visible_at: VisibleAt,
    amendment: Option<Amendment>,
}

impl Answer {
    /// An empty answer to a request with this number of items. `held` is the memory that the
    /// request uses.
    pub(super) fn new(request: RequestId, layout: Version, items: usize, held: usize) -> Self {
        let kept = held + items * REFUSED_BYTES;
        let budget = AnswerBudget::new(ANSWER_BYTES_MAX.saturating_sub(kept));
        let (count, elements, visible_at) = (0, Vec::new(), VisibleAt::Now);
        let amendment = None;
        Self { request, layout, budget, count, elements, visible_at, amendment }
    }

    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    pub(super) fn version(&self) -> i16 {
        self.layout.number
    }

    /// Sets the change to apply to each part of the answer.
    pub(super) fn amend(&mut self, amendment: Option<Amendment>) {
        self.amendment = amendment;
    }

    /// Adds positions that must be durable before the answer leaves.
    pub(super) fn wait_for(&mut self, visible_at: VisibleAt) {
        self.visible_at.join(visible_at);
    }

    /// Adds the answer to a slice. After the last slice, passes the whole answer to the
    /// connections.
    pub(super) fn add(
        &mut self,
        connections: &mut Connections,
        mut response: Response<'_>,
        is_last: bool,
    ) {
        if let Some(amendment) = &mut self.amendment {
            amendment.amend(&mut response, is_last);
        }
        let visible_at = |answer: &mut Self| std::mem::take(&mut answer.visible_at);
        if is_last && self.count == 0 {
            return connections.answer(self.request, &response, visible_at(self));
        }
        connections.count_errors(&response);
        let bytes_after = apis::gather(&mut response, self);
        if is_last {
            let elements = std::mem::take(&mut self.elements);
            let list = EncodedList { count: self.count, elements, bytes_after };
            connections.answer_with_list(self.request, &response, list, visible_at(self));
        }
    }

    /// Moves the elements of a response to the answer. Elements beyond the budget are replaced
    /// ([`LongAnswer::too_large`]). Returns the encoded size of the fields after the list.
    pub(super) fn gather<'r, A: LongAnswer<'r>>(&mut self, response: &mut A) -> usize {
        for element in std::mem::take(response.list()) {
            let fits = self.budget.take(&element);
            let element = if fits { element } else { A::too_large(element) };
            element.write(&mut self.elements, self.layout);
            self.count += 1;
        }
        A::bytes_after_list(self.version())
    }

    /// Removes all elements, because the whole answer is an error.
    pub(super) fn clear(&mut self) {
        self.elements.clear();
        self.count = 0;
    }

    pub(super) fn held(&self) -> usize {
        self.elements.capacity()
    }
}
