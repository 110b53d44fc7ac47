//! Records of a shard's log. Input: whether there is a value; the length of the key; key; value.

use crate::memory::within;
use muster_codec::records::{ClusterRecord, GroupRecord};

const GRANTED_PER_BYTE: usize = 32;

pub fn run(input: &[u8]) {
    let Some((key, value)) = split(input) else { return };
    let granted = input.len() * GRANTED_PER_BYTE + 4096;
    if let Ok(Some(record)) = within(granted, || GroupRecord::read(key, value)) {
        let written = write(|out| record.write_key(out), |out| record.write_value(out));
        let again = GroupRecord::read(&written.0, written.1.as_deref()).unwrap().unwrap();
        assert_eq!(again.group_id(), record.group_id());
        assert_eq!(again.is_tombstone(), record.is_tombstone());
        let twice = write(|out| again.write_key(out), |out| again.write_value(out));
        assert_eq!(twice, written, "{record:?}");
    }
    if let Ok(Some(record)) = within(granted, || ClusterRecord::read(key, value)) {
        let written = write(|out| record.write_key(out), |out| record.write_value(out));
        let again = ClusterRecord::read(&written.0, written.1.as_deref()).unwrap().unwrap();
        // Compares bytes, because a quota may be NaN, which does not equal itself.
        let twice = write(|out| again.write_key(out), |out| again.write_value(out));
        assert_eq!(twice, written, "{record:?}");
    }
}

fn split(input: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let ([has_value, key_len], rest) = input.split_first_chunk()?;
    let (key, value) = rest.split_at_checked((*key_len).into())?;
    Some((key, (*has_value != 0).then_some(value)))
}

fn write(
    key: impl Fn(&mut Vec<u8>),
    value: impl Fn(&mut Vec<u8>) -> bool,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let (mut written_key, mut written_value) = (Vec::new(), Vec::new());
    key(&mut written_key);
    let has_value = value(&mut written_value);
    (written_key, has_value.then_some(written_value))
}
