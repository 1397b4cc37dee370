// Ask the search of a built site what a user would type, and print the rank of the page that
// answers: `make site && node benchmarks/site_search.js site`. It runs the site's own search, so
// ranks are those of its results; exit status 1 where an answer is not the first page.
const fs = require("fs"), path = require("path"), vm = require("vm");

const ANSWERS = {
  "tutorial": ["tutorial/"],
  "install": ["", "tutorial/"],
  "oversampling": ["studies/imbalance/", "explainer/"],
  "own loss": ["own_learner/"],
  "damaged file": ["operations/faults/"],
  "GPU": ["operations/cluster/", "method/model/", "method/images/"],
  "download data": ["method/images/"],
  "late learning": ["studies/fate/"],
  "does pruning help": ["explainer/", "studies/imbalance/"],
  "VICReg": ["studies/learners/"],
  "CIFAR-10": ["studies/long_tail/"],
  "Slurm": ["operations/cluster/"],
  "what is a claim": ["claims/", "method/claims/"],
  "cite": [""],
  "critical frequency": ["studies/selection/", "explainer/", "method/selection/"],
  "how rare is too rare": ["explainer/"],
};

const site = process.argv[2] || "site";
const folder = path.join(site, "assets/javascripts/workers");
const worker = fs.readdirSync(folder).find(name => /^search\..*\.js$/.test(name));
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));

let receive, answered;
const context = vm.createContext({
  addEventListener: (_, listener) => { receive = listener; },
  postMessage: message => answered(message.data),
  console: { log() {}, warn() {} },
});
context.self = context;
vm.runInContext(fs.readFileSync(path.join(folder, worker), "utf8"), context);
const send = data => new Promise(resolve => { answered = resolve; receive({ data }); });

(async () => {
  await send({ type: 0, data: { ...index, options: { suggest: false } } });
  let missed = 0;
  for (const [query, pages] of Object.entries(ANSWERS)) {
    const { items } = await send({ type: 2, data: query });
    const found = items.map(sections => sections[0].location.split("#")[0]);
    const rank = found.findIndex(page => pages.includes(page)) + 1;
    missed += rank !== 1;
    console.log(`${rank || "not found"}\t${query}\t${found.slice(0, 4).map(page => page || "home").join(", ")}`);
  }
  console.log(`${Object.keys(ANSWERS).length - missed} of ${Object.keys(ANSWERS).length} answered by the first page`);
  process.exit(missed ? 1 : 0);
})();
