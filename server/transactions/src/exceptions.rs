//! A property of transactional ids, which has its default value for nearly all of them. Only ids
//! with another value take memory.

use crate::text::Text;
use alloc::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Exceptions<T>(BTreeMap<Text, T>);

impl<T: Copy + Default + PartialEq> Exceptions<T> {
    pub(crate) fn get(&self, id: &str) -> T {
        self.0.get(id).copied().unwrap_or_default()
    }

    /// Sets the property of an id. Returns the previous value.
    pub(crate) fn set(&mut self, id: &str, value: T) -> T {
        let is_default = value == T::default();
        let before = if is_default { self.0.remove(id) } else { self.0.insert(id.into(), value) };
        before.unwrap_or_default()
    }
}
