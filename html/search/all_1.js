var searchData=
[
  ['bonsai_0',['Bonsai',['../md_README.html',1,'']]]
];
