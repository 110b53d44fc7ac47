//! Removes elements from a list of a request.

/// Removes and returns the elements that `refuse` selects; None if there are none.
pub(super) fn extract<T>(elements: &mut Vec<T>, refuse: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    if !elements.iter().any(&refuse) {
        return None;
    }
    let (refused, kept) = std::mem::take(elements).into_iter().partition(refuse);
    *elements = kept;
    Some(refused)
}
