var searchData=
[
  ['architecture_0',['Architecture',['../md_ARCHITECTURE.html',1,'']]]
];
