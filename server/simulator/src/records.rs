//! The records of groups, as bytes.

use muster_codec::records::GroupRecord;

/// The key and the value of a record in its log. A tombstone has no value.
pub(crate) type RecordBytes = (Vec<u8>, Option<Vec<u8>>);

pub(crate) fn bytes_of(records: &[GroupRecord<'_>]) -> Vec<RecordBytes> {
    let bytes = |record: &GroupRecord<'_>| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let has_value = record.write_value(&mut value);
        (key, has_value.then_some(value))
    };
    records.iter().map(bytes).collect()
}
