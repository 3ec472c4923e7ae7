//! Files that options name by `@file`, as in curl and vegeta.

/// Reads the file that `text` names. Returns `None` if it names no file.
///
/// # Errors
/// Returns a description if the file cannot be read.
pub(super) fn bytes(text: &str) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(None);
    };
    let read = std::fs::read(path);
    read.map(Some).map_err(|error| {
        format!("the file `{path}` cannot be read: {error}; a text that begins with @ is written {{{{\"@\"}}}}…")
    })
}

/// Returns `text`, or the content of the file that it names, without the last line break.
///
/// # Errors
/// Returns a description if the file cannot be read, or is not UTF-8.
pub(super) fn text(text: &str) -> Result<String, String> {
    let Some(bytes) = bytes(text)? else {
        return Ok(text.to_owned());
    };
    let content =
        String::from_utf8(bytes).map_err(|_| format!("the file `{}` is not UTF-8", &text[1..]))?;
    let content = content.strip_suffix('\n').unwrap_or(&content);
    Ok(content.strip_suffix('\r').unwrap_or(content).to_owned())
}
