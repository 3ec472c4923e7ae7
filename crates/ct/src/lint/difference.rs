//! The difference between a precertificate and its final certificate: their signed entries (RFC
//! 6962, section 3.2), field by field.

use lucarne_x509::der::{DerError, Reader, tag};
use lucarne_x509::oid;

use super::{LintCode, LintFinding};
use crate::certificate::TbsFields;

/// Returns the differences between the TBSCertificate of the precertificate without its poison and
/// the TBSCertificate of the certificate without its SCTs. Empty if both are equal byte for byte.
pub(super) fn differences(precertificate: &[u8], certificate: &[u8]) -> Vec<LintFinding> {
    if precertificate == certificate {
        return Vec::new();
    }
    let mut found = match (fields(precertificate), fields(certificate)) {
        (Ok(before), Ok(after)) => compare(&before, &after),
        // This error is unlikely, because both certificates were parsed before.
        (Err(error), _) | (_, Err(error)) => {
            vec![LintFinding::new(
                LintCode::EncodingDiffers,
                error.to_string(),
            )]
        }
    };
    if found.is_empty() {
        let detail = "every compared field is equal, but the bytes differ: in their encoding, or in a \
                      field that is not compared";
        found.push(LintFinding::new(LintCode::EncodingDiffers, detail));
    }
    found
}

fn fields(tbs: &[u8]) -> Result<TbsFields<'_>, DerError> {
    let tbs = Reader::new(tbs).expect(tag::SEQUENCE, "tbsCertificate")?;
    TbsFields::walk(tbs)
}

fn compare(before: &TbsFields<'_>, after: &TbsFields<'_>) -> Vec<LintFinding> {
    let mut found = Vec::new();
    if before.version != after.version {
        let (before, after) = (before.version, after.version);
        let detail = format!("version: {before} in the precertificate, {after} in the certificate");
        found.push(LintFinding::new(LintCode::FieldDiffers, detail));
    }
    for (name, before, after) in [
        ("serialNumber", before.serial, after.serial),
        ("signature algorithm", before.algorithm, after.algorithm),
        ("issuer", before.issuer, after.issuer),
        ("validity", before.validity, after.validity),
        ("subject", before.subject, after.subject),
        ("subjectPublicKeyInfo", before.spki, after.spki),
    ] {
        if before.raw != after.raw {
            let (before, after) = (shown(before.raw), shown(after.raw));
            let detail =
                format!("{name}: {before} in the precertificate, {after} in the certificate");
            found.push(LintFinding::new(LintCode::FieldDiffers, detail));
        }
    }
    found.extend(compare_extensions(before, after));
    found
}

fn compare_extensions(before: &TbsFields<'_>, after: &TbsFields<'_>) -> Vec<LintFinding> {
    let before: Vec<_> = before.extensions().collect();
    let after: Vec<_> = after.extensions().collect();
    let mut found = Vec::new();
    for extension in &before {
        let name = oid::display(extension.oid);
        match after.iter().find(|other| other.oid == extension.oid) {
            None => {
                let detail = format!("the extension {name} is not in the certificate");
                found.push(LintFinding::new(LintCode::ExtensionMissing, detail));
            }
            Some(other) if other.raw != extension.raw => {
                let (before, after) = (shown(extension.raw), shown(other.raw));
                let detail = format!(
                    "the extension {name}: {before} in the precertificate, {after} in the certificate"
                );
                found.push(LintFinding::new(LintCode::ExtensionDiffers, detail));
            }
            Some(_) => {}
        }
    }
    for extension in &after {
        if !before.iter().any(|other| other.oid == extension.oid) {
            let name = oid::display(extension.oid);
            let detail = format!("the extension {name} is not in the precertificate");
            found.push(LintFinding::new(LintCode::ExtensionAdded, detail));
        }
    }
    if found.is_empty() && before.iter().map(|e| e.raw).ne(after.iter().map(|e| e.raw)) {
        let names = |list: &[crate::certificate::Extension<'_>]| {
            let names: Vec<_> = list.iter().map(|e| oid::display(e.oid)).collect();
            names.join(", ")
        };
        let detail = format!(
            "the extensions are in a different order, or repeated: {} in the precertificate, {} in the \
             certificate",
            names(&before),
            names(&after)
        );
        found.push(LintFinding::new(LintCode::ExtensionOrder, detail));
    }
    found
}

/// Returns hexadecimal digits, truncated if there are many.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    match bytes.get(..MOST) {
        Some(start) if bytes.len() > MOST => {
            format!("{}… ({} bytes)", hex::encode(start), bytes.len())
        }
        _ => hex::encode(bytes),
    }
}
