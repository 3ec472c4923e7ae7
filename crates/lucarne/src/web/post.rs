//! Submissions.

use anyhow::Result;

use super::Client;

impl Client {
    /// Posts JSON: the status and the body of the answer.
    pub(crate) fn post_json(&self, url: &str, json: &str) -> Result<(u16, String)> {
        let request = self.0.post(url).content_type("application/json");
        let mut response = request.send(json)?;
        let body = response.body_mut().read_to_string()?;
        Ok((response.status().as_u16(), body))
    }
}
