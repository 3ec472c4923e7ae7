//! An upload has the same head and packages in pieces of any size, and its packages are bundles of
//! entries. The state of a mirror is written as it was read.

use crate::upload::{MirrorInfo, Package, UploadHead, UploadReader, package_leaves};

pub(crate) fn run(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    if let Some(info) = MirrorInfo::parse(text) {
        assert_eq!(MirrorInfo::parse(&info.to_string()), Some(info));
    }
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, 7), whole);
    for package in whole.iter().flat_map(|(_, packages)| packages) {
        let entries = package.leaves.end - package.leaves.start;
        assert_eq!(package.ends.len() as u64, entries);
        assert_eq!(package.ends.last(), Some(&package.entries.len()));
        assert!(entries <= 256 && package.proof.len() <= 63);
    }
}

/// Returns the head and the complete packages before the first error.
fn read(bytes: &[u8], size: usize) -> Option<(UploadHead, Vec<Package>)> {
    let mut reader = UploadReader::default();
    let mut upload = None;
    for piece in bytes.chunks(size) {
        reader.push(piece);
        if upload.is_none() {
            match reader.head() {
                Ok(head) => upload = head.map(|head| (head.start, head, Vec::new())),
                Err(_) => return None,
            }
        }
        let Some((next, head, packages)) = &mut upload else {
            continue;
        };
        while let Some(leaves) = package_leaves(*next, head.end)
            && let Ok(Some(package)) = reader.package(&leaves)
        {
            *next = leaves.end;
            packages.push(package);
        }
    }
    upload.map(|(_, head, packages)| (head, packages))
}
