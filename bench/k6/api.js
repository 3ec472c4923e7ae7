// api.yaml as a script of k6: the same requests, rates and checks.
import http from 'k6/http';
import exec from 'k6/execution';
import { check } from 'k6';

const base = __ENV.TARGET;
const rate = Number(__ENV.RATE || 50);
const open = {
  executor: 'constant-arrival-rate', rate, timeUnit: '1s', duration: __ENV.DURATION || '60s',
  preAllocatedVUs: 50, maxVUs: 500,
};

export const options = {
  insecureSkipTLSVerify: true,
  summaryTrendStats: ['med', 'p(90)', 'p(95)', 'p(99)', 'max', 'avg'],
  scenarios: {
    issuance_acceptance: { ...open, exec: 'create' },
    list_certificates: { ...open, exec: 'list' },
  },
  thresholds: {
    http_req_failed: ['rate<0.01'],
    'http_req_waiting{scenario:issuance_acceptance}': ['p(95)<2000'],
    'http_req_waiting{scenario:list_certificates}': ['p(95)<800'],
  },
};

const headers = { Authorization: 'Bearer load-test-token', 'Content-Type': 'application/json' };

export function create() {
  const name = `loadtest-${exec.scenario.iterationInTest}-${Date.now()}.example.test`;
  const body = JSON.stringify({
    name, common_name: name, sans: [name], issuer_id: 'iss-local', owner_id: 'o-alice',
    team_id: 't-platform', renewal_policy_id: 'rp-standard', environment: 'production',
  });
  const answer = http.post(`${base}/api/v1/certificates`, body, { headers });
  check(answer, { 'status is 201': (r) => r.status === 201 });
}

export function list() {
  const answer = http.get(`${base}/api/v1/certificates?per_page=50`, { headers });
  check(answer, {
    'status is 200': (r) => r.status === 200,
    'data is an array': (r) => Array.isArray(r.json('data')),
  });
}
